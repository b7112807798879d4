//! testpmd as the peer over memif: every mode, both roles, no frame lost uncounted.

use super::cases::Case;
use super::namespaces::Namespace;
use super::product::{Product, Report};
use super::testpmd::{Role, Testpmd, Totals};
use crate::Error;
use std::path::Path;
use std::time::{Duration, Instant};

/// What happens between the two.
#[derive(Clone, Copy, Debug)]
struct Scenario {
    /// testpmd's forwarding mode.
    mode: &'static str,
    /// What follows the NIC in the pipeline.
    pipeline: &'static str,
    /// Frames that we send by ourselves.
    sent: u64,
}

/// All modes in both roles.
///
/// # Errors
/// When a program fails in a way that is no verdict.
pub fn judge(product: &Product) -> Result<Vec<Case>, Error> {
    let mut cases = Vec::new();
    for scenario in SCENARIOS {
        for role in [Role::Client, Role::Server] {
            let space = Namespace::create("memif")?;
            cases.extend(run(product, &space, scenario, role)?);
        }
    }
    Ok(cases)
}

fn run(
    product: &Product,
    space: &Namespace,
    scenario: Scenario,
    role: Role,
) -> Result<Vec<Case>, Error> {
    let name = format!("memif-{}-{}", scenario.mode, role.word());
    let socket = product.folder().join(format!("{name}.sock"));
    let nic = format!(
        "name = \"{name}\"\n\n[nic.peer]\nopen = \"memif:{}\"\nrole = \"{}\"\nwait_ms = 30000\n",
        socket.display(),
        role.word()
    );
    let pipeline = format!("{nic}{}", scenario.pipeline);
    let start = |socket: &Path| Testpmd::start(space, socket, role.other(), scenario.mode);
    // Who connects tries once, so who listens comes first.
    let (mut testpmd, session) = match role {
        Role::Client => {
            let testpmd = start(&socket)?;
            (testpmd, product.start(space, &name, &pipeline)?)
        }
        Role::Server => {
            let mut session = product.start(space, &name, &pipeline)?;
            session.wait_until(|| socket.exists())?;
            (start(&socket)?, session)
        }
    };
    let wanted = scenario.sent.max(1);
    testpmd
        .wait_for(|totals| totals.received >= wanted || scenario.sent == 0 && totals.sent > 0)?;
    linger(if scenario.sent == 0 { FLOW } else { SETTLE });
    let totals = testpmd.finish()?;
    // What it sent last is still in the ring.
    linger(SETTLE);
    let report = session.finish()?;
    compare(scenario, role, totals, &report)
}

fn compare(
    scenario: Scenario,
    role: Role,
    totals: Totals,
    report: &Report,
) -> Result<Vec<Case>, Error> {
    let sent = report.number("/nics/0/sent/frames")?;
    let received = report.number("/nics/0/received/frames")?;
    let lost = report.sum("/nics/0/lost")?;
    let case = |what: &str, ours: String, judge: String| Case {
        name: format!("testpmd {}, we are {}: {what}", scenario.mode, role.word()),
        ours,
        judge,
        explanation: None,
    };
    let mut cases = vec![
        case(
            "frames to testpmd",
            (sent - lost).to_string(),
            totals.received.to_string(),
        ),
        case(
            "frames from testpmd",
            received.to_string(),
            totals.sent.to_string(),
        ),
        case(
            "every frame received is sent or its drop counted",
            report.adds_up().to_string(),
            "true".to_owned(),
        ),
    ];
    if scenario.mode == "icmpecho" || scenario.mode == "macswap" {
        let returned = scenario.sent - totals.unsent;
        cases.push(case(
            "frames that it returned, but for those that it counts as unsent",
            received.to_string(),
            returned.to_string(),
        ));
    }
    if scenario.sent > 0 {
        cases.push(case(
            "frames asked for",
            sent.to_string(),
            scenario.sent.to_string(),
        ));
    }
    Ok(cases)
}

fn linger(time: Duration) {
    let end = Instant::now() + time;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        std::thread::sleep(left);
    }
}

/// How long testpmd sends where nobody counts.
const FLOW: Duration = Duration::from_secs(1);
const SETTLE: Duration = Duration::from_millis(500);

const SCENARIOS: [Scenario; 5] = [
    Scenario {
        mode: "rxonly",
        pipeline: GENERATE,
        sent: 200_000,
    },
    Scenario {
        mode: "txonly",
        pipeline: COUNT,
        sent: 0,
    },
    Scenario {
        mode: "macswap",
        pipeline: BOTH,
        sent: 200_000,
    },
    Scenario {
        mode: "flowgen",
        pipeline: SWAP,
        sent: 0,
    },
    Scenario {
        mode: "icmpecho",
        pipeline: ASK,
        sent: 200_000,
    },
];

const GENERATE: &str = r#"
[[generate]]
from = "peer"
count = 200000

[[generate.frame]]
kind = "udp"
flows = 16
"#;

const COUNT: &str = r#"
[[receive]]
from = "peer"

[[receive.stage]]
do = "classify"

[[receive.stage]]
do = "drop"
"#;

const BOTH: &str = r#"
[[generate]]
from = "peer"
count = 200000

[[generate.frame]]
kind = "udp"
flows = 16

[[receive]]
from = "peer"

[[receive.stage]]
do = "drop"
"#;

const SWAP: &str = r#"
[[receive]]
from = "peer"

[[receive.stage]]
do = "rewrite"
swap_macs = true

[[receive.stage]]
do = "reply"
"#;

const ASK: &str = r#"
[[generate]]
from = "peer"
count = 200000

[[generate.frame]]
kind = "ping"

[[generate.frame]]
kind = "arp"

[[receive]]
from = "peer"

[[receive.stage]]
do = "drop"
"#;
