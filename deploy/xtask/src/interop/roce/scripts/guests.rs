//! Guest to guest: the peers judge themselves.

use super::{CM, TCP};
use super::{Case, Place, Says, alone, guests, rping};

/// All cases.
pub(super) const CASES: &[Case] = &[
    alone(
        "agent hands words over",
        Place::Left,
        "echo one; echo $((6 * 7))",
        &["one", "42"],
    ),
    alone(
        "port of the left guest",
        Place::Left,
        "ibv_devinfo -v -d rxe0",
        PORT_LEFT,
    ),
    alone(
        "port of the right guest",
        Place::Right,
        "ibv_devinfo -v -d rxe0",
        PORT_RIGHT,
    ),
    alone(
        "host reaches guests over IPv4",
        Place::Host,
        "ping -c 1 -w 20 10.77.0.2 && ping -c 1 -w 20 10.77.0.3",
        &["64 bytes from 10.77.0.2:", "64 bytes from 10.77.0.3:"],
    ),
    alone(
        "host reaches guests over IPv6",
        Place::Host,
        "ping -c 1 -w 20 fd77::2 && ping -c 1 -w 20 fd77::3",
        &["64 bytes from fd77::2:", "64 bytes from fd77::3:"],
    ),
    guests(
        "ibv_rc_pingpong",
        TCP,
        ("ibv_rc_pingpong -g 1 -n 2 -c", PINGPONG),
        ("ibv_rc_pingpong -g 1 -n 2 -c 10.77.0.2", PINGPONG),
    ),
    guests(
        "ibv_uc_pingpong",
        TCP,
        ("ibv_uc_pingpong -g 1 -n 2", PINGPONG),
        ("ibv_uc_pingpong -g 1 -n 2 10.77.0.2", PINGPONG),
    ),
    guests(
        "ibv_ud_pingpong",
        TCP,
        ("ibv_ud_pingpong -g 1 -n 2 -s 512", UD_PINGPONG),
        ("ibv_ud_pingpong -g 1 -n 2 -s 512 10.77.0.2", UD_PINGPONG),
    ),
    guests(
        "ib_send_bw",
        TCP,
        ("ib_send_bw -x 1 -F -n 5 -s 2048", &["2048 5"]),
        ("ib_send_bw -x 1 -F -n 5 -s 2048 10.77.0.2", &["2048 5"]),
    ),
    guests(
        "ib_write_bw",
        TCP,
        ("ib_write_bw -x 1 -F -n 5 -s 2048", &["2048 5"]),
        ("ib_write_bw -x 1 -F -n 5 -s 2048 10.77.0.2", &["2048 5"]),
    ),
    guests(
        "ib_read_lat",
        TCP,
        (
            "ib_read_lat -x 1 -F -n 5 -s 2048",
            &["RDMA_Read Latency Test"],
        ),
        ("ib_read_lat -x 1 -F -n 5 -s 2048 10.77.0.2", &["2048 5"]),
    ),
    guests(
        "ib_atomic_lat",
        TCP,
        (
            "ib_atomic_lat -x 1 -F -n 5",
            &["Atomic FETCH_AND_ADD Latency Test"],
        ),
        ("ib_atomic_lat -x 1 -F -n 5 10.77.0.2", &["8 5"]),
    ),
    rping(
        "rping over IPv4",
        "rping -s -a 10.77.0.2 -C 2",
        (
            "rping -c -a 10.77.0.2 -C 2 -S 64 -v -V",
            &["ping data: rdma-ping-1:"],
        ),
    ),
    rping(
        "rping over IPv6",
        "rping -s -a fd77::2 -C 1",
        (
            "rping -c -a fd77::2 -C 1 -S 64 -v -V",
            &["ping data: rdma-ping-0:"],
        ),
    ),
    guests(
        "rdma_client",
        CM,
        ("rdma_server", &["rdma_server: end 0"]),
        ("rdma_client -s 10.77.0.2", &["rdma_client: end 0"]),
    ),
    guests(
        "udaddy",
        CM,
        ("udaddy -C 1 -S 64", UDADDY),
        ("udaddy -s 10.77.0.2 -C 1 -S 64", UDADDY),
    ),
    guests(
        "every operation over IPv4",
        VPEER,
        (
            "vpeer -l 7000 -p 000100 -n 1",
            &["* recv id=1000 status=0", "buffer crc32=0b0afef1", "OK"],
        ),
        (
            "vpeer -c 10.77.0.2 -P 7000 -p 00a000 \
             -o write:2048:0,read:2048:0:4096,fadd:1:0,send:64",
            &[
                "atomic original=322b241d160f0801",
                "buffer crc32=1d5d2e2c",
                "OK",
            ],
        ),
    ),
    guests(
        "every operation over IPv6",
        VPEER,
        (
            "vpeer -l 7000 -p 000100 -g 2 -n 1",
            &["* recv id=1000 status=0", "OK"],
        ),
        (
            "vpeer -c fd77::2 -P 7000 -p 00a000 -g 2 \
             -o send:2048,write:100:0,read:1500:0:0,fadd:1:0",
            &["ready mtu=1024", "OK"],
        ),
    ),
];

/// Succeeds when `vpeer` listens.
const VPEER: &str = "ss -Htln | grep -q ':7000 '";

const PINGPONG: Says = &["16384 bytes in", "2 iters in"];
const UD_PINGPONG: Says = &["2048 bytes in", "2 iters in"];
const UDADDY: Says = &["data transfers complete", "return status 0"];

const PORT_LEFT: Says = &[
    "state: PORT_ACTIVE",
    "active_mtu: 1024",
    "GID[ 1]: ::ffff:10.77.0.2, RoCE v2",
    "GID[ 2]: fd77::2, RoCE v2",
];
const PORT_RIGHT: Says = &[
    "state: PORT_ACTIVE",
    "active_mtu: 1024",
    "GID[ 1]: ::ffff:10.77.0.3, RoCE v2",
    "GID[ 2]: fd77::3, RoCE v2",
];
