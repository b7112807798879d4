/* Prints sizes, offsets and values of infiniband/mlx5dv.h, one `name number` a line. */
#include <stddef.h>
#include <stdio.h>
#include <infiniband/mlx5dv.h>

#define SIZE(type) printf("sizeof " #type " %zu\n", sizeof(struct type))
#define OFFSET(type, field) printf(#type "." #field " %zu\n", offsetof(struct type, field))
#define VALUE(name) printf(#name " %llu\n", (unsigned long long)(name))

int main(void)
{
	SIZE(mlx5_wqe_ctrl_seg);
	OFFSET(mlx5_wqe_ctrl_seg, opmod_idx_opcode);
	OFFSET(mlx5_wqe_ctrl_seg, qpn_ds);
	OFFSET(mlx5_wqe_ctrl_seg, signature);
	OFFSET(mlx5_wqe_ctrl_seg, dci_stream_channel_id);
	OFFSET(mlx5_wqe_ctrl_seg, fm_ce_se);
	OFFSET(mlx5_wqe_ctrl_seg, imm);
	OFFSET(mlx5_wqe_eth_seg, rsvd0);
	OFFSET(mlx5_wqe_eth_seg, cs_flags);
	OFFSET(mlx5_wqe_eth_seg, rsvd1);
	OFFSET(mlx5_wqe_eth_seg, mss);
	OFFSET(mlx5_wqe_eth_seg, rsvd2);
	OFFSET(mlx5_wqe_eth_seg, inline_hdr_sz);
	OFFSET(mlx5_wqe_eth_seg, inline_hdr_start);
	OFFSET(mlx5_wqe_eth_seg, inline_hdr);
	SIZE(mlx5_wqe_data_seg);
	OFFSET(mlx5_wqe_data_seg, byte_count);
	OFFSET(mlx5_wqe_data_seg, lkey);
	OFFSET(mlx5_wqe_data_seg, addr);
	SIZE(mlx5_wqe_raddr_seg);
	OFFSET(mlx5_wqe_raddr_seg, raddr);
	OFFSET(mlx5_wqe_raddr_seg, rkey);
	OFFSET(mlx5_wqe_raddr_seg, reserved);
	SIZE(mlx5_wqe_atomic_seg);
	OFFSET(mlx5_wqe_atomic_seg, swap_add);
	OFFSET(mlx5_wqe_atomic_seg, compare);
	SIZE(mlx5_wqe_inl_data_seg);
	OFFSET(mlx5_wqe_inl_data_seg, byte_count);
	SIZE(mlx5_cqe64);
	OFFSET(mlx5_cqe64, wqe_id);
	OFFSET(mlx5_cqe64, ml_path);
	OFFSET(mlx5_cqe64, slid);
	OFFSET(mlx5_cqe64, flags_rqpn);
	OFFSET(mlx5_cqe64, hds_ip_ext);
	OFFSET(mlx5_cqe64, l4_hdr_type_etc);
	OFFSET(mlx5_cqe64, vlan_info);
	OFFSET(mlx5_cqe64, srqn_uidx);
	OFFSET(mlx5_cqe64, imm_inval_pkey);
	OFFSET(mlx5_cqe64, app);
	OFFSET(mlx5_cqe64, app_op);
	OFFSET(mlx5_cqe64, app_info);
	OFFSET(mlx5_cqe64, byte_cnt);
	OFFSET(mlx5_cqe64, timestamp);
	OFFSET(mlx5_cqe64, sop_drop_qpn);
	OFFSET(mlx5_cqe64, wqe_counter);
	OFFSET(mlx5_cqe64, signature);
	OFFSET(mlx5_cqe64, op_own);
	SIZE(mlx5_err_cqe);
	OFFSET(mlx5_err_cqe, srqn);
	OFFSET(mlx5_err_cqe, vendor_err_synd);
	OFFSET(mlx5_err_cqe, syndrome);
	OFFSET(mlx5_err_cqe, s_wqe_opcode_qpn);
	OFFSET(mlx5_err_cqe, wqe_counter);
	OFFSET(mlx5_err_cqe, signature);
	OFFSET(mlx5_err_cqe, op_own);
	VALUE(MLX5_RCV_DBR);
	VALUE(MLX5_SND_DBR);
	VALUE(MLX5_SEND_WQE_BB);
	VALUE(MLX5_INVALID_LKEY);
	VALUE(MLX5_INLINE_SEG & 0xffffffffu);
	VALUE(MLX5_WQE_CTRL_CQ_UPDATE);
	VALUE(MLX5_ETH_WQE_L3_CSUM);
	VALUE(MLX5_ETH_WQE_L4_CSUM);
	VALUE(MLX5_CQE_L3_OK);
	VALUE(MLX5_CQE_L4_OK);
	VALUE(MLX5_CQE_L3_HDR_TYPE_IPV6);
	VALUE(MLX5_CQE_L3_HDR_TYPE_IPV4);
	VALUE(MLX5_CQE_OWNER_MASK);
	VALUE(MLX5_CQE_REQ);
	VALUE(MLX5_CQE_RESP_WR_IMM);
	VALUE(MLX5_CQE_RESP_SEND);
	VALUE(MLX5_CQE_RESP_SEND_IMM);
	VALUE(MLX5_CQE_REQ_ERR);
	VALUE(MLX5_CQE_RESP_ERR);
	VALUE(MLX5_CQE_INVALID);
	VALUE(MLX5_OPCODE_NOP);
	VALUE(MLX5_OPCODE_RDMA_WRITE);
	VALUE(MLX5_OPCODE_RDMA_WRITE_IMM);
	VALUE(MLX5_OPCODE_SEND);
	VALUE(MLX5_OPCODE_SEND_IMM);
	VALUE(MLX5_OPCODE_TSO);
	VALUE(MLX5_OPCODE_RDMA_READ);
	VALUE(MLX5_OPCODE_ATOMIC_CS);
	VALUE(MLX5_OPCODE_ATOMIC_FA);
	VALUE(MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR);
	VALUE(MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR);
	VALUE(MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
	VALUE(MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
	VALUE(MLX5_CQE_SYNDROME_MW_BIND_ERR);
	VALUE(MLX5_CQE_SYNDROME_BAD_RESP_ERR);
	VALUE(MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR);
	VALUE(MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR);
	VALUE(MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR);
	VALUE(MLX5_CQE_SYNDROME_REMOTE_OP_ERR);
	VALUE(MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR);
	VALUE(MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR);
	VALUE(MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR);
	return 0;
}
