//! Every operation that Soft-RoCE has, in both directions, at sizes around the packets' bounds,
//! compared byte by byte: many cases in one run of `warpwire-bench soft-roce`.

use super::{Case, Says, told, we_ask};

/// All cases.
pub(super) const OPERATIONS: &[Case] = &[
    operations(
        "every operation, IPv4 and IPv6, packets of 256 and 1024 bytes",
        PUPPET,
        "warpwire-bench soft-roce 10.77.0.2 fd77::2 --mtu 256,1024",
        &["operations: 776 exact, 0 ended by loss, 0 wrong"],
    ),
    operations(
        "every operation, IPv4 and IPv6, packets of 4096 bytes",
        "trap : TERM; ip link set dev eth0 mtu 4200; puppet 7100; ip link set dev eth0 mtu 1500",
        "ip link set dev ww0 mtu 4200; \
         warpwire-bench soft-roce 10.77.0.2 fd77::2 --mtu 4096; status=$?; \
         ip link set dev ww0 mtu 1500; exit $status",
        &["operations: 388 exact, 0 ended by loss, 0 wrong"],
    ),
    operations(
        "every operation by the NIC's device model",
        PUPPET,
        "warpwire-bench soft-roce 10.77.0.2 --mtu 1024 --largest 65536 --nic soft,uplink=xdp:ww0",
        &["operations: 184 exact, 0 ended by loss, 0 wrong"],
    ),
    operations(
        "0.1 % lost, doubled, late, and damaged each",
        PUPPET,
        "warpwire-bench soft-roce 10.77.0.2 --lossy --rounds 4 --service rc --mtu 1024 \
         --largest 65536 --timeout 14 --nic soft,uplink=xdp:ww0,seed=1,loss_ppm=1000,\
         duplicate_ppm=1000,reorder_ppm=1000,reorder_us=300,corrupt_ppm=1000",
        &["operations: 384 exact, 0 ended by loss, 0 wrong"],
    ),
    operations(
        "1 % lost, doubled, late, and damaged each",
        PUPPET,
        "warpwire-bench soft-roce 10.77.0.2 --lossy --rounds 2 --service rc --mtu 1024 \
         --largest 65536 --timeout 14 --nic soft,uplink=xdp:ww0,seed=2,loss_ppm=10000,\
         duplicate_ppm=10000,reorder_ppm=10000,reorder_us=300,corrupt_ppm=10000",
        &["operations: * exact, * ended by loss, 0 wrong"],
    ),
    operations(
        "5 % lost, doubled, late, and damaged each",
        PUPPET,
        "warpwire-bench soft-roce 10.77.0.2 --lossy --service rc --mtu 1024 \
         --largest 65536 --timeout 14 --nic soft,uplink=xdp:ww0,seed=3,loss_ppm=50000,\
         duplicate_ppm=50000,reorder_ppm=50000,reorder_us=300,corrupt_ppm=50000",
        &["operations: * exact, * ended by loss, 0 wrong"],
    ),
];

/// A puppet at the left guest, and what moves it at the host.
const fn operations(
    name: &'static str,
    server: &'static str,
    client: &'static str,
    client_says: Says,
) -> Case {
    told(we_ask(name, PROBE, (server, &[]), (client, client_says)))
}

const PUPPET: &str = "puppet 7100";
/// Succeeds when the puppet listens.
const PROBE: &str = "ss -Htln | grep -q ':7100 '";
