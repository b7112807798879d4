//! Compares every size, offset and value that we use with what infiniband/mlx5dv.h says.

use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::Command;

use warpwire_ring::Cause;
use warpwire_ring::mlx5::layout as mlx5;

/// What the C program prints: one `name number` a line.
fn c_values() -> Result<BTreeMap<String, u64>, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c_layout_mlx5.c");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c_layout_mlx5");
    if !Path::new("/usr/include/infiniband/mlx5dv.h").exists() {
        return Err("no infiniband/mlx5dv.h (install libibverbs-dev)".to_owned());
    }
    let compiled = Command::new("cc")
        .arg("-o")
        .arg(&program)
        .arg(&source)
        .status();
    match compiled {
        Err(error) => return Err(format!("no C compiler `cc`: {error}")),
        Ok(status) => assert!(status.success(), "{} does not compile", source.display()),
    }
    let output = Command::new(&program)
        .output()
        .expect("the program just built runs");
    let text = String::from_utf8(output.stdout).expect("names and numbers");
    let value = |line: &str| {
        let (name, number) = line.rsplit_once(' ').expect("name and number");
        (name.to_owned(), number.parse().expect("a number"))
    };
    Ok(text.lines().map(value).collect())
}

/// Compares, and demands that nothing which C printed is left over.
fn check(mut theirs: BTreeMap<String, u64>, ours: &[(&str, u64)]) {
    for (name, value) in ours {
        let their = theirs.remove(*name);
        assert_eq!(
            their,
            Some(*value),
            "{name}: C says {their:?}, we say {value}"
        );
    }
    assert!(theirs.is_empty(), "not compared: {theirs:?}");
}

macro_rules! offsets {
    ($list:ident, $c:literal, $ty:ty { $($field:ident),* $(,)? }) => {
        $( $list.push((concat!($c, ".", stringify!($field)), offset_of!($ty, $field) as u64)); )*
    };
}

macro_rules! sizes {
    ($list:ident, { $($c:literal = $ty:ty),* $(,)? }) => {
        $( $list.push((concat!("sizeof ", $c), size_of::<$ty>() as u64)); )*
    };
}

#[test]
fn mlx5_matches_rdma_core() {
    let theirs = match c_values() {
        Ok(theirs) => theirs,
        Err(why) => return warpwire_skip::installable(why),
    };
    let mut ours: Vec<(&str, u64)> = Vec::new();
    sizes!(ours, {
        "mlx5_wqe_ctrl_seg" = mlx5::ControlSegment,
        "mlx5_wqe_data_seg" = mlx5::DataSegment,
        "mlx5_wqe_raddr_seg" = mlx5::RemoteAddressSegment,
        "mlx5_wqe_atomic_seg" = mlx5::AtomicSegment,
        "mlx5_wqe_inl_data_seg" = mlx5::InlineSegment,
        "mlx5_cqe64" = mlx5::Cqe,
        "mlx5_err_cqe" = mlx5::ErrorCqe,
    });
    offsets!(
        ours,
        "mlx5_wqe_ctrl_seg",
        mlx5::ControlSegment {
            opmod_idx_opcode,
            qpn_ds,
            signature,
            dci_stream_channel_id,
            fm_ce_se,
            imm,
        }
    );
    offsets!(
        ours,
        "mlx5_wqe_eth_seg",
        mlx5::EthernetSegment {
            rsvd0,
            cs_flags,
            rsvd1,
            mss,
            rsvd2,
            inline_hdr_sz,
            inline_hdr_start,
        }
    );
    let after_ethernet = size_of::<mlx5::EthernetSegment>() as u64;
    ours.push(("mlx5_wqe_eth_seg.inline_hdr", after_ethernet));
    offsets!(
        ours,
        "mlx5_wqe_data_seg",
        mlx5::DataSegment {
            byte_count,
            lkey,
            addr
        }
    );
    offsets!(
        ours,
        "mlx5_wqe_raddr_seg",
        mlx5::RemoteAddressSegment {
            raddr,
            rkey,
            reserved
        }
    );
    offsets!(
        ours,
        "mlx5_wqe_atomic_seg",
        mlx5::AtomicSegment { swap_add, compare }
    );
    offsets!(
        ours,
        "mlx5_wqe_inl_data_seg",
        mlx5::InlineSegment { byte_count }
    );
    offsets!(
        ours,
        "mlx5_cqe64",
        mlx5::Cqe {
            wqe_id,
            ml_path,
            slid,
            flags_rqpn,
            hds_ip_ext,
            l4_hdr_type_etc,
            vlan_info,
            srqn_uidx,
            imm_inval_pkey,
            app,
            app_op,
            app_info,
            byte_cnt,
            timestamp,
            sop_drop_qpn,
            wqe_counter,
            signature,
            op_own,
        }
    );
    offsets!(
        ours,
        "mlx5_err_cqe",
        mlx5::ErrorCqe {
            srqn,
            vendor_err_synd,
            syndrome,
            s_wqe_opcode_qpn,
            wqe_counter,
            signature,
            op_own,
        }
    );
    mlx5_values(&mut ours);
    check(theirs, &ours);
}

fn mlx5_values(ours: &mut Vec<(&'static str, u64)>) {
    ours.extend([
        ("MLX5_RCV_DBR", mlx5::RECORD_RECEIVE / 4),
        ("MLX5_SND_DBR", mlx5::RECORD_SEND / 4),
        ("MLX5_SEND_WQE_BB", mlx5::WQEBB_BYTES),
        ("MLX5_INVALID_LKEY", mlx5::INVALID_LKEY.into()),
        ("MLX5_INLINE_SEG & 0xffffffffu", mlx5::INLINE.into()),
        ("MLX5_WQE_CTRL_CQ_UPDATE", mlx5::COMPLETE_ALWAYS.into()),
        ("MLX5_ETH_WQE_L3_CSUM", mlx5::CHECKSUM_L3.into()),
        ("MLX5_ETH_WQE_L4_CSUM", mlx5::CHECKSUM_L4.into()),
        ("MLX5_CQE_L3_OK", mlx5::CQE_L3_OK.into()),
        ("MLX5_CQE_L4_OK", mlx5::CQE_L4_OK.into()),
        ("MLX5_CQE_L3_HDR_TYPE_IPV6", (mlx5::CQE_L3_IPV6 >> 2).into()),
        ("MLX5_CQE_L3_HDR_TYPE_IPV4", (mlx5::CQE_L3_IPV4 >> 2).into()),
        ("MLX5_CQE_OWNER_MASK", (mlx5::NEVER_WRITTEN & 1).into()),
        ("MLX5_CQE_REQ", mlx5::CqeOpcode::REQUEST.0.into()),
        (
            "MLX5_CQE_RESP_WR_IMM",
            mlx5::CqeOpcode::RESPONSE_WRITE_IMM.0.into(),
        ),
        (
            "MLX5_CQE_RESP_SEND",
            mlx5::CqeOpcode::RESPONSE_SEND.0.into(),
        ),
        (
            "MLX5_CQE_RESP_SEND_IMM",
            mlx5::CqeOpcode::RESPONSE_SEND_IMM.0.into(),
        ),
        ("MLX5_CQE_REQ_ERR", mlx5::CqeOpcode::REQUEST_ERROR.0.into()),
        (
            "MLX5_CQE_RESP_ERR",
            mlx5::CqeOpcode::RESPONSE_ERROR.0.into(),
        ),
        ("MLX5_CQE_INVALID", mlx5::CqeOpcode::INVALID.0.into()),
        ("MLX5_OPCODE_NOP", mlx5::Opcode::NOP.0.into()),
        ("MLX5_OPCODE_RDMA_WRITE", mlx5::Opcode::WRITE.0.into()),
        (
            "MLX5_OPCODE_RDMA_WRITE_IMM",
            mlx5::Opcode::WRITE_IMM.0.into(),
        ),
        ("MLX5_OPCODE_SEND", mlx5::Opcode::SEND.0.into()),
        ("MLX5_OPCODE_SEND_IMM", mlx5::Opcode::SEND_IMM.0.into()),
        ("MLX5_OPCODE_TSO", mlx5::Opcode::TSO.0.into()),
        ("MLX5_OPCODE_RDMA_READ", mlx5::Opcode::READ.0.into()),
        ("MLX5_OPCODE_ATOMIC_CS", mlx5::Opcode::COMPARE_SWAP.0.into()),
        ("MLX5_OPCODE_ATOMIC_FA", mlx5::Opcode::FETCH_ADD.0.into()),
    ]);
    let syndromes = [
        ("MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR", Cause::LocalLength),
        ("MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR", Cause::LocalQpOperation),
        ("MLX5_CQE_SYNDROME_LOCAL_PROT_ERR", Cause::LocalProtection),
        ("MLX5_CQE_SYNDROME_WR_FLUSH_ERR", Cause::Flushed),
        ("MLX5_CQE_SYNDROME_MW_BIND_ERR", Cause::MemoryWindowBind),
        ("MLX5_CQE_SYNDROME_BAD_RESP_ERR", Cause::BadResponse),
        ("MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR", Cause::LocalAccess),
        (
            "MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR",
            Cause::RemoteInvalidRequest,
        ),
        ("MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR", Cause::RemoteAccess),
        ("MLX5_CQE_SYNDROME_REMOTE_OP_ERR", Cause::RemoteOperation),
        (
            "MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR",
            Cause::RetryExceeded,
        ),
        (
            "MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR",
            Cause::RnrRetryExceeded,
        ),
        ("MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR", Cause::RemoteAborted),
    ];
    for (name, cause) in syndromes {
        ours.push((name, cause.syndrome().expect("has a syndrome").into()));
    }
}
