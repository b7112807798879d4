//! Our command at one end, in both roles. Guests are slow: repetitions wait long where much is
//! under way.

use super::{Case, TCP, we_ask, we_serve};

/// All cases.
pub(super) const OURS: &[Case] = &[
    we_ask(
        "warpwire pingpong asks ibv_rc_pingpong",
        TCP,
        ("ibv_rc_pingpong -g 1 -n 20 -c", &["20 iters in"]),
        ("warpwire pingpong 10.77.0.2 -n 20 -c", &["20 iters in"]),
    ),
    we_ask(
        "the same in packets of 256 bytes",
        TCP,
        (
            "ibv_rc_pingpong -g 1 -n 5 -s 65536 -m 256 -c",
            &["5 iters in"],
        ),
        (
            "warpwire pingpong 10.77.0.2 -n 5 -s 65536 -m 256 -c",
            &["5 iters in"],
        ),
    ),
    we_ask(
        "warpwire pingpong asks ibv_uc_pingpong",
        TCP,
        ("ibv_uc_pingpong -g 1 -n 20 -c", &["20 iters in"]),
        (
            "warpwire pingpong 10.77.0.2 -n 20 -c --connection uc",
            &["20 iters in"],
        ),
    ),
    we_ask(
        "warpwire pingpong asks ibv_ud_pingpong",
        TCP,
        ("ibv_ud_pingpong -g 1 -n 20 -c", &["20 iters in"]),
        (
            "warpwire pingpong 10.77.0.2 -n 20 -c --connection ud",
            &["20 iters in"],
        ),
    ),
    we_serve(
        "warpwire pingpong serves ibv_rc_pingpong",
        TCP,
        ("warpwire pingpong -n 20 -c", &["20 iters in"]),
        ("ibv_rc_pingpong -g 1 -n 20 -c 10.77.0.1", &["20 iters in"]),
    ),
    we_serve(
        "warpwire pingpong serves ibv_ud_pingpong",
        TCP,
        (
            "warpwire pingpong -n 20 -c --connection ud",
            &["20 iters in"],
        ),
        ("ibv_ud_pingpong -g 1 -n 20 -c 10.77.0.1", &["20 iters in"]),
    ),
    we_ask(
        "warpwire bench send-bw asks ib_send_bw",
        TCP,
        ("ib_send_bw -x 1 -F -n 20 -s 65536", &["65536 20"]),
        (
            "warpwire bench send-bw 10.77.0.2 -n 20 -s 65536 -u 19",
            &["65536 20"],
        ),
    ),
    we_ask(
        "warpwire bench write-bw asks ib_write_bw",
        TCP,
        ("ib_write_bw -x 1 -F -n 20 -s 65536", &["65536 20"]),
        (
            "warpwire bench write-bw 10.77.0.2 -n 20 -s 65536 -u 19",
            &["65536 20"],
        ),
    ),
    we_ask(
        "warpwire bench read-bw asks ib_read_bw",
        TCP,
        ("ib_read_bw -x 1 -F -n 20 -s 65536", &["65536 20"]),
        (
            "warpwire bench read-bw 10.77.0.2 -n 20 -s 65536 -u 19",
            &["65536 20"],
        ),
    ),
    we_ask(
        "warpwire bench send-lat asks ib_send_lat",
        TCP,
        ("ib_send_lat -x 1 -F -n 20", &["2 20"]),
        ("warpwire bench send-lat 10.77.0.2 -n 20 -u 19", &["2 20"]),
    ),
    we_ask(
        "warpwire bench write-lat asks ib_write_lat",
        TCP,
        ("ib_write_lat -x 1 -F -n 20", &["2 20"]),
        ("warpwire bench write-lat 10.77.0.2 -n 20 -u 19", &["2 20"]),
    ),
    we_ask(
        "warpwire bench read-lat asks ib_read_lat",
        TCP,
        ("ib_read_lat -x 1 -F -n 20", &["RDMA_Read Latency Test"]),
        ("warpwire bench read-lat 10.77.0.2 -n 20 -u 19", &["2 20"]),
    ),
    we_ask(
        "warpwire bench atomic-lat asks ib_atomic_lat",
        TCP,
        (
            "ib_atomic_lat -x 1 -F -n 20",
            &["Atomic FETCH_AND_ADD Latency Test"],
        ),
        ("warpwire bench atomic-lat 10.77.0.2 -n 20 -u 19", &["8 20"]),
    ),
    we_serve(
        "warpwire bench send-bw serves ib_send_bw",
        TCP,
        ("warpwire bench send-bw -n 20 -s 65536", &["65536 20"]),
        ("ib_send_bw -x 1 -F -n 20 -s 65536 10.77.0.1", &["65536 20"]),
    ),
    we_serve(
        "warpwire bench write-bw serves ib_write_bw",
        TCP,
        (
            "warpwire bench write-bw -n 20 -s 65536",
            &["RDMA_Write BW Test"],
        ),
        (
            "ib_write_bw -x 1 -F -n 20 -s 65536 10.77.0.1",
            &["65536 20"],
        ),
    ),
    we_serve(
        "warpwire bench read-bw serves ib_read_bw",
        TCP,
        (
            "warpwire bench read-bw -n 20 -s 65536",
            &["RDMA_Read BW Test"],
        ),
        ("ib_read_bw -x 1 -F -n 20 -s 65536 10.77.0.1", &["65536 20"]),
    ),
    we_serve(
        "warpwire bench write-lat serves ib_write_lat",
        TCP,
        ("warpwire bench write-lat -n 20", &["2 20"]),
        ("ib_write_lat -x 1 -F -n 20 10.77.0.1", &["2 20"]),
    ),
    we_serve(
        "warpwire bench atomic-lat serves ib_atomic_lat",
        TCP,
        (
            "warpwire bench atomic-lat -n 20",
            &["Atomic FETCH_AND_ADD Latency Test"],
        ),
        ("ib_atomic_lat -x 1 -F -n 20 10.77.0.1", &["8 20"]),
    ),
    we_ask(
        "warpwire pingpong asks ibv_rc_pingpong over IPv6",
        TCP,
        ("ibv_rc_pingpong -g 2 -n 20 -c", &["20 iters in"]),
        (
            "warpwire pingpong 10.77.0.2 -g fd77::1 -n 20 -c",
            &["20 iters in"],
        ),
    ),
    we_serve(
        "warpwire pingpong serves ibv_rc_pingpong over IPv6",
        TCP,
        ("warpwire pingpong -n 20 -c", &["20 iters in"]),
        ("ibv_rc_pingpong -g 2 -n 20 -c fd77::1", &["20 iters in"]),
    ),
    we_ask(
        "warpwire bench send-lat asks ib_send_lat over IPv6, by the number of the address",
        TCP,
        ("ib_send_lat -x 2 -F -n 20", &["2 20"]),
        (
            "warpwire bench send-lat 10.77.0.2 -x 2 -n 20 -u 19",
            &["2 20"],
        ),
    ),
    we_ask(
        "warpwire bench read-bw asks ib_read_bw over IPv6",
        TCP,
        ("ib_read_bw -x 2 -F -n 20 -s 65536", &["65536 20"]),
        (
            "warpwire bench read-bw 10.77.0.2 --bind_source_ip fd77::1 -n 20 -s 65536 -u 19",
            &["65536 20"],
        ),
    ),
    we_serve(
        "warpwire pingpong serves ibv_uc_pingpong",
        TCP,
        (
            "warpwire pingpong -n 20 -c --connection uc",
            &["20 iters in"],
        ),
        ("ibv_uc_pingpong -g 1 -n 20 -c 10.77.0.1", &["20 iters in"]),
    ),
    we_ask(
        "warpwire bench write-bw asks ib_write_bw, 8 queue pairs on an engine of 4 warps",
        TCP,
        ("ib_write_bw -x 1 -F -n 20 -s 65536 -q 8", &["65536 160"]),
        (
            "warpwire bench write-bw 10.77.0.2 -n 20 -s 65536 -q 8 -u 19 --warps 4",
            &["65536 160"],
        ),
    ),
    we_serve(
        "warpwire bench send-bw serves ib_send_bw, 8 queue pairs on an engine of 4 warps",
        TCP,
        (
            "warpwire bench send-bw -n 20 -s 65536 -q 8 --warps 4",
            &["65536 160"],
        ),
        (
            "ib_send_bw -x 1 -F -n 20 -s 65536 -q 8 10.77.0.1",
            &["65536 160"],
        ),
    ),
    we_ask(
        "warpwire bench send-bw asks ib_send_bw, both ways at once",
        TCP,
        ("ib_send_bw -x 1 -F -n 20 -s 4096 -b", &["4096 20"]),
        (
            "warpwire bench send-bw 10.77.0.2 -n 20 -s 4096 -u 19 -b",
            &["4096 20"],
        ),
    ),
    we_serve(
        "warpwire bench write-bw serves ib_write_bw, both ways at once",
        TCP,
        (
            "warpwire bench write-bw -n 20 -s 4096 -u 19 -b",
            &["4096 20"],
        ),
        (
            "ib_write_bw -x 1 -F -n 20 -s 4096 -b 10.77.0.1",
            &["4096 20"],
        ),
    ),
    we_ask(
        "warpwire bench write-bw asks ib_write_bw at all sizes",
        TCP,
        ("ib_write_bw -x 1 -F -n 5 -a", &["8388608 5"]),
        (
            "warpwire bench write-bw 10.77.0.2 -n 5 -a -u 19",
            &["2 5", "65536 5", "8388608 5"],
        ),
    ),
    we_ask(
        "warpwire bench send-bw asks ib_send_bw by datagrams",
        TCP,
        ("ib_send_bw -x 1 -F -n 20 -s 512 -c UD", &["512 20"]),
        (
            "warpwire bench send-bw 10.77.0.2 -n 20 -s 512 -c UD",
            &["512 20"],
        ),
    ),
    we_serve(
        "warpwire bench write-lat serves ib_write_lat, unreliably",
        TCP,
        ("warpwire bench write-lat -n 20 -c UC", &["2 20"]),
        ("ib_write_lat -x 1 -F -n 20 -c UC 10.77.0.1", &["2 20"]),
    ),
    we_ask(
        "warpwire bench msgrate asks ib_write_bw on four queue pairs",
        TCP,
        ("ib_write_bw -x 1 -F -n 20 -s 8 -q 4", &["8 80"]),
        (
            "warpwire bench msgrate 10.77.0.2 -n 20 -u 19 -q 4",
            &["8 80"],
        ),
    ),
];
