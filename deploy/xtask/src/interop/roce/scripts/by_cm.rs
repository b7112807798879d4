//! Connections by RDMA-CM with our command at one end, in both roles.

use super::{CM, Case, DEVICE, Place, alone, somehow, told, we_ask, we_serve};

/// All cases.
pub(super) const BY_CM: &[Case] = &[
    we_ask(
        "warpwire rping asks rping",
        CM,
        (
            "rping -s -a 10.77.0.2 -v",
            &[
                "server ping data: rdma-ping-1:",
                "server DISCONNECT EVENT...",
            ],
        ),
        (
            "warpwire rping -c -a 10.77.0.2 -C 2 -v -V",
            &["ping data: rdma-ping-1:"],
        ),
    ),
    we_ask(
        "warpwire rping asks rping over IPv6",
        CM,
        (
            "rping -s -a fd77::2 -S 4000 -v",
            &[
                "server ping data: rdma-ping-1:",
                "server DISCONNECT EVENT...",
            ],
        ),
        (
            "warpwire rping -c -a fd77::2 -C 2 -S 4000 -v -V",
            &["ping data: rdma-ping-1:"],
        ),
    ),
    somehow(we_serve(
        "warpwire rping serves rping",
        DEVICE,
        ("warpwire rping -s -v", &["server ping data: rdma-ping-1:"]),
        (
            "rping -c -a 10.77.0.1 -C 2 -S 4000 -v -V",
            &["ping data: rdma-ping-1:"],
        ),
    )),
    somehow(we_serve(
        "warpwire rping serves rping over IPv6",
        DEVICE,
        (
            "warpwire rping -s -a fd77::1 -v",
            &["server ping data: rdma-ping-1:"],
        ),
        (
            "rping -c -a fd77::1 -C 2 -v -V",
            &["ping data: rdma-ping-1:"],
        ),
    )),
    told(somehow(we_serve(
        "one client of rping after the other",
        DEVICE,
        (
            "warpwire rping -s -P -v",
            &[
                "server ping data: rdma-ping-0:",
                "server ping data: rdma-ping-2:",
            ],
        ),
        (
            "rping -c -a 10.77.0.1 -C 1 -V; rping -c -a 10.77.0.1 -C 3 -v -V",
            &["ping data: rdma-ping-2:"],
        ),
    ))),
    alone(
        "nobody listens at a guest's port",
        Place::Host,
        "warpwire rping -c -a 10.77.0.2 -p 7999 2>&1 | sed 's/.*rejected: //'",
        &["invalid service id (8);"],
    ),
    told(somehow(we_serve(
        "nobody listens at our port",
        DEVICE,
        ("warpwire rping -s -p 7175", &[]),
        (
            "rping -c -a 10.77.0.1 -C 1",
            &["cma event RDMA_CM_EVENT_REJECTED, error 8"],
        ),
    ))),
    we_ask(
        "a message to rdma_server",
        CM,
        ("rdma_server", &["rdma_server: end 0"]),
        ("rdma-message 10.77.0.2", &["the answer has 16 bytes"]),
    ),
    we_serve(
        "a message from rdma_client",
        DEVICE,
        ("rdma-message", &["10.77.0.2 sent 16 bytes"]),
        ("rdma_client -s 10.77.0.1", &["rdma_client: end 0"]),
    ),
    we_ask(
        "warpwire bench write-bw -R asks ib_write_bw",
        CM,
        ("ib_write_bw -R -x 1 -F -n 20 -s 65536", &["65536 20"]),
        (
            "warpwire bench write-bw -R 10.77.0.2 -n 20 -s 65536 -u 19",
            &["65536 20"],
        ),
    ),
    we_ask(
        "RDMA-CM and rping with 5 % lost, doubled, late, and damaged each",
        CM,
        (
            "rping -s -a 10.77.0.2 -v",
            &["server ping data: rdma-ping-19:"],
        ),
        (
            "warpwire rping -c -a 10.77.0.2 -C 20 -v -V --nic soft,uplink=xdp:ww0,seed=4,\
             loss_ppm=50000,duplicate_ppm=50000,reorder_ppm=50000,reorder_us=300,\
             corrupt_ppm=50000",
            &["ping data: rdma-ping-19:"],
        ),
    ),
    we_ask(
        "warpwire bench send-bw -R asks ib_send_bw, both ways at once",
        CM,
        ("ib_send_bw -R -x 1 -F -n 20 -s 4096 -b", &["4096 20"]),
        (
            "warpwire bench send-bw -R 10.77.0.2 -n 20 -s 4096 -u 19 -b",
            &["4096 20"],
        ),
    ),
    we_ask(
        "warpwire bench send-bw -R asks ib_send_bw with two queue pairs",
        CM,
        ("ib_send_bw -R -x 1 -F -n 20 -s 4096 -q 2", &["4096 40"]),
        (
            "warpwire bench send-bw -R 10.77.0.2 -n 20 -s 4096 -u 19 -q 2",
            &["4096 40"],
        ),
    ),
    we_ask(
        "warpwire bench read-lat -R asks ib_read_lat",
        CM,
        ("ib_read_lat -R -x 1 -F -n 20", &["RDMA_Read Latency Test"]),
        (
            "warpwire bench read-lat -R 10.77.0.2 -n 20 -u 19",
            &["2 20"],
        ),
    ),
    we_serve(
        "warpwire bench read-bw -R serves ib_read_bw",
        DEVICE,
        (
            "warpwire bench read-bw -R -n 20 -s 65536",
            &["RDMA_Read BW Test"],
        ),
        (
            "ib_read_bw -R -x 1 -F -n 20 -s 65536 10.77.0.1",
            &["65536 20"],
        ),
    ),
    we_serve(
        "warpwire bench send-lat -R serves ib_send_lat",
        DEVICE,
        ("warpwire bench send-lat -R -n 20", &["2 20"]),
        ("ib_send_lat -R -x 1 -F -n 20 10.77.0.1", &["2 20"]),
    ),
    we_serve(
        "warpwire bench atomic-lat -R serves ib_atomic_lat",
        DEVICE,
        (
            "warpwire bench atomic-lat -R -n 20",
            &["Atomic FETCH_AND_ADD Latency Test"],
        ),
        ("ib_atomic_lat -R -x 1 -F -n 20 10.77.0.1", &["8 20"]),
    ),
    we_ask(
        "datagrams to udaddy",
        CM,
        (
            "udaddy",
            &[
                "receiving data transfers",
                "sending replies",
                "return status 0",
            ],
        ),
        (
            "rdma-datagram 10.77.0.2",
            &[
                "10.77.0.2 has queue pair * with key 0x01234567",
                "10 datagrams were answered",
            ],
        ),
    ),
    we_ask(
        "datagrams to udaddy over IPv6",
        CM,
        ("udaddy -b fd77::2", &["return status 0"]),
        ("rdma-datagram fd77::2", &["10 datagrams were answered"]),
    ),
    we_serve(
        "datagrams from udaddy",
        DEVICE,
        (
            "rdma-datagram",
            &["10.77.0.2 sent 10 datagrams", "10 answers are sent"],
        ),
        (
            "udaddy -s 10.77.0.1",
            &["data transfers complete", "return status 0"],
        ),
    ),
    alone(
        "no datagram service at a guest's port",
        Place::Host,
        "rdma-datagram 10.77.0.2 7999 2>&1 | sed 's/.*refused: //'",
        &["service not supported (1);"],
    ),
    told(somehow(we_serve(
        "no datagram service at our port",
        DEVICE,
        ("warpwire rping -s", &[]),
        (
            "udaddy -s 10.77.0.1",
            &["udaddy: event: RDMA_CM_EVENT_UNREACHABLE, error: 1"],
        ),
    ))),
    we_ask(
        "warpwire bench send-bw -c UD -R asks ib_send_bw",
        CM,
        ("ib_send_bw -R -x 1 -F -n 20 -s 512 -c UD", &["512 20"]),
        (
            "warpwire bench send-bw -R 10.77.0.2 -n 20 -s 512 -c UD",
            &["512 20"],
        ),
    ),
    we_ask(
        "warpwire bench send-bw -c UD -R asks ib_send_bw with two queue pairs",
        CM,
        ("ib_send_bw -R -x 1 -F -n 20 -s 512 -c UD -q 2", &["512 40"]),
        (
            "warpwire bench send-bw -R 10.77.0.2 -n 20 -s 512 -c UD -q 2",
            &["512 40"],
        ),
    ),
    we_ask(
        "warpwire bench send-lat -c UD -R asks ib_send_lat",
        CM,
        ("ib_send_lat -R -x 1 -F -n 20 -s 512 -c UD", &["512 20"]),
        (
            "warpwire bench send-lat -R 10.77.0.2 -n 20 -s 512 -c UD",
            &["512 20"],
        ),
    ),
    we_serve(
        "warpwire bench send-bw -c UD -R serves ib_send_bw",
        DEVICE,
        ("warpwire bench send-bw -R -n 20 -s 512 -c UD", &["512 20"]),
        (
            "ib_send_bw -R -x 1 -F -n 20 -s 512 -c UD 10.77.0.1",
            &["512 20"],
        ),
    ),
    we_serve(
        "warpwire bench send-bw -c UD -R serves ib_send_bw, both ways at once",
        DEVICE,
        (
            "warpwire bench send-bw -R -n 20 -s 512 -c UD -b",
            &["512 20"],
        ),
        (
            "ib_send_bw -R -x 1 -F -n 20 -s 512 -c UD -b 10.77.0.1",
            &["512 20"],
        ),
    ),
    we_serve(
        "warpwire bench send-lat -c UD -R serves ib_send_lat",
        DEVICE,
        ("warpwire bench send-lat -R -n 20 -s 512 -c UD", &["512 20"]),
        (
            "ib_send_lat -R -x 1 -F -n 20 -s 512 -c UD 10.77.0.1",
            &["512 20"],
        ),
    ),
];
