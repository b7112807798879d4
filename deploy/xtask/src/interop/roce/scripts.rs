//! The cases: who runs what, where, and what it must say.

use crate::Error;
use crate::process::Outcome;
use std::fmt;
use std::time::Duration;

/// Where a half of a case runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The guest with 10.77.0.2 and fd77::2.
    Left,
    /// The guest with 10.77.0.3 and fd77::3.
    Right,
    /// The namespace with 10.77.0.1 and fd77::1.
    Host,
}

/// One half of a case.
#[derive(Clone, Copy, Debug)]
pub struct Half {
    /// Where it runs.
    pub place: Place,
    /// A shell's words.
    pub words: &'static str,
    /// Of a server: a shell's words that succeed at its place once it listens.
    pub probe: &'static str,
    /// How it ends.
    pub ending: Ending,
    /// Lines that it must write, one for each of these: the line's words begin with them, and `*`
    /// stands for any word.
    pub says: &'static [&'static str],
}

/// How a half ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By itself, and with status 0.
    Well,
    /// By itself, with a status that means nothing: rping's client may lose a race with its own
    /// clearing away, and says so by its status.
    Somehow,
    /// A server goes on until it is told to end.
    Told,
}

/// A server, if there is one, and a client.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// A name of its own.
    pub name: &'static str,
    /// Who listens, and is started first.
    pub server: Option<Half>,
    /// Who connects.
    pub client: Half,
}

impl Half {
    /// Whether it ended well and said what it must.
    ///
    /// # Errors
    /// What was wrong, with all that it wrote.
    pub fn judge(&self, outcome: &Outcome) -> Result<(), Error> {
        let has = |line: &&str| outcome.stdout.lines().any(|said| begins(said, line));
        let missing: Vec<&&str> = self.says.iter().filter(|line| !has(line)).collect();
        let is_well = self.ending != Ending::Well || outcome.is_success();
        if is_well && missing.is_empty() {
            return Ok(());
        }
        let mut status = outcome.end_in_words();
        for line in missing {
            status.push_str(&format!("; no line `{line}`"));
        }
        Err(Error::Failed {
            program: format!("{}: {}", self.place, self.words),
            status,
            output: format!("{}{}", outcome.stdout, outcome.stderr),
        })
    }
}

/// Whether the words of a line begin with those of a pattern, in which `*` is any word.
fn begins(line: &str, pattern: &str) -> bool {
    let mut words = line.split_whitespace();
    pattern.split_whitespace().all(|wanted| {
        words
            .next()
            .is_some_and(|word| wanted == "*" || wanted == word)
    })
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Left => "left",
            Self::Right => "right",
            Self::Host => "host",
        })
    }
}

impl fmt::Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:", self.name)?;
        if let Some(server) = &self.server {
            write!(out, " {}: {} |", server.place, server.words)?;
        }
        write!(out, " {}: {}", self.client.place, self.client.words)
    }
}

/// A half, which listens if there is a probe.
const fn half(place: Place, probe: &'static str, words: &'static str, says: Says) -> Half {
    Half {
        place,
        words,
        probe,
        ending: Ending::Well,
        says,
    }
}

/// A case without a server.
const fn alone(name: &'static str, place: Place, words: &'static str, says: Says) -> Case {
    Case {
        name,
        server: None,
        client: half(place, "", words, says),
    }
}

/// A server at the left guest, which ends by itself, and a client at the right one.
const fn guests(
    name: &'static str,
    probe: &'static str,
    (server, server_says): (&'static str, Says),
    (client, client_says): (&'static str, Says),
) -> Case {
    Case {
        name,
        server: Some(half(Place::Left, probe, server, server_says)),
        client: half(Place::Right, "", client, client_says),
    }
}

/// rping between the guests.
const fn rping(name: &'static str, server: &'static str, client: (&'static str, Says)) -> Case {
    let mut case = guests(name, CM, (server, &["server DISCONNECT EVENT..."]), client);
    case.client.ending = Ending::Somehow;
    case
}

/// A server at the left guest and our command at the host.
const fn we_ask(
    name: &'static str,
    (server, server_says): (&'static str, Says),
    (client, client_says): (&'static str, Says),
) -> Case {
    Case {
        name,
        server: Some(half(Place::Left, TCP, server, server_says)),
        client: half(Place::Host, "", client, client_says),
    }
}

/// Our command as the server at the host, and a client at the left guest.
const fn we_serve(
    name: &'static str,
    (server, server_says): (&'static str, Says),
    (client, client_says): (&'static str, Says),
) -> Case {
    Case {
        name,
        server: Some(half(Place::Host, TCP, server, server_says)),
        client: half(Place::Left, "", client, client_says),
    }
}

type Says = &'static [&'static str];

/// Each half ends within this.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Succeeds when somebody listens on the port of perftest and ibv_*_pingpong.
const TCP: &str = "ss -Htln | grep -q ':18515 '";
/// Succeeds when `vpeer` listens.
const VPEER: &str = "ss -Htln | grep -q ':7000 '";
/// Succeeds when somebody listens by rdma_cm.
const CM: &str = "rdma resource show cm_id | grep -q LISTEN";

const PINGPONG: Says = &["16384 bytes in", "2 iters in"];
const UD_PINGPONG: Says = &["2048 bytes in", "2 iters in"];
const UDADDY: Says = &["data transfers complete", "return status 0"];

/// All cases.
pub const CASES: &[Case] = &[
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

/// The cases with our command at one end, in both roles. Guests are slow: repetitions wait long
/// where much is under way.
pub const OURS: &[Case] = &[
    we_ask(
        "warpwire pingpong asks ibv_rc_pingpong",
        ("ibv_rc_pingpong -g 1 -n 20 -c", &["20 iters in"]),
        ("warpwire pingpong 10.77.0.2 -n 20 -c", &["20 iters in"]),
    ),
    we_ask(
        "the same in packets of 256 bytes",
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
        ("ibv_uc_pingpong -g 1 -n 20", &["20 iters in"]),
        (
            "warpwire pingpong 10.77.0.2 -n 20 --connection uc",
            &["20 iters in"],
        ),
    ),
    we_ask(
        "warpwire pingpong asks ibv_ud_pingpong",
        ("ibv_ud_pingpong -g 1 -n 20", &["20 iters in"]),
        (
            "warpwire pingpong 10.77.0.2 -n 20 --connection ud",
            &["20 iters in"],
        ),
    ),
    we_serve(
        "warpwire pingpong serves ibv_rc_pingpong",
        ("warpwire pingpong -n 20 -c", &["20 iters in"]),
        ("ibv_rc_pingpong -g 1 -n 20 -c 10.77.0.1", &["20 iters in"]),
    ),
    we_serve(
        "warpwire pingpong serves ibv_ud_pingpong",
        ("warpwire pingpong -n 20 --connection ud", &["20 iters in"]),
        ("ibv_ud_pingpong -g 1 -n 20 10.77.0.1", &["20 iters in"]),
    ),
    we_ask(
        "warpwire bench send-bw asks ib_send_bw",
        ("ib_send_bw -x 1 -F -n 20 -s 65536", &["65536 20"]),
        (
            "warpwire bench send-bw 10.77.0.2 -n 20 -s 65536 -u 19",
            &["65536 20"],
        ),
    ),
    we_ask(
        "warpwire bench write-bw asks ib_write_bw",
        ("ib_write_bw -x 1 -F -n 20 -s 65536", &["65536 20"]),
        (
            "warpwire bench write-bw 10.77.0.2 -n 20 -s 65536 -u 19",
            &["65536 20"],
        ),
    ),
    we_ask(
        "warpwire bench read-bw asks ib_read_bw",
        ("ib_read_bw -x 1 -F -n 20 -s 65536", &["65536 20"]),
        (
            "warpwire bench read-bw 10.77.0.2 -n 20 -s 65536 -u 19",
            &["65536 20"],
        ),
    ),
    we_ask(
        "warpwire bench send-lat asks ib_send_lat",
        ("ib_send_lat -x 1 -F -n 20", &["2 20"]),
        ("warpwire bench send-lat 10.77.0.2 -n 20", &["2 20"]),
    ),
    we_ask(
        "warpwire bench write-lat asks ib_write_lat",
        ("ib_write_lat -x 1 -F -n 20", &["2 20"]),
        ("warpwire bench write-lat 10.77.0.2 -n 20", &["2 20"]),
    ),
    we_ask(
        "warpwire bench read-lat asks ib_read_lat",
        ("ib_read_lat -x 1 -F -n 20", &["RDMA_Read Latency Test"]),
        ("warpwire bench read-lat 10.77.0.2 -n 20", &["2 20"]),
    ),
    we_ask(
        "warpwire bench atomic-lat asks ib_atomic_lat",
        (
            "ib_atomic_lat -x 1 -F -n 20",
            &["Atomic FETCH_AND_ADD Latency Test"],
        ),
        ("warpwire bench atomic-lat 10.77.0.2 -n 20", &["8 20"]),
    ),
    we_serve(
        "warpwire bench send-bw serves ib_send_bw",
        ("warpwire bench send-bw -n 20 -s 65536", &["65536 20"]),
        ("ib_send_bw -x 1 -F -n 20 -s 65536 10.77.0.1", &["65536 20"]),
    ),
    we_serve(
        "warpwire bench write-bw serves ib_write_bw",
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
        (
            "warpwire bench read-bw -n 20 -s 65536",
            &["RDMA_Read BW Test"],
        ),
        ("ib_read_bw -x 1 -F -n 20 -s 65536 10.77.0.1", &["65536 20"]),
    ),
    we_serve(
        "warpwire bench write-lat serves ib_write_lat",
        ("warpwire bench write-lat -n 20", &["2 20"]),
        ("ib_write_lat -x 1 -F -n 20 10.77.0.1", &["2 20"]),
    ),
    we_serve(
        "warpwire bench atomic-lat serves ib_atomic_lat",
        (
            "warpwire bench atomic-lat -n 20",
            &["Atomic FETCH_AND_ADD Latency Test"],
        ),
        ("ib_atomic_lat -x 1 -F -n 20 10.77.0.1", &["8 20"]),
    ),
];

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{self, Show};
    use std::collections::HashSet;
    use std::process::Command;

    #[test]
    fn names_are_their_own_and_servers_have_a_probe() {
        let names: HashSet<&str> = CASES.iter().chain(OURS).map(|case| case.name).collect();
        assert_eq!(names.len(), CASES.len() + OURS.len());
        for case in CASES.iter().chain(OURS) {
            let probed = case.server.is_none_or(|server| !server.probe.is_empty());
            assert!(probed, "{}", case.name);
        }
    }

    #[test]
    fn a_half_is_judged_by_its_end_and_its_lines() {
        let check = |script: &str, ending, says, fault: Option<&str>| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            let outcome = process::run(&mut command, LIMIT, Show::Nothing).unwrap();
            let mut half = half(Place::Host, "", "words", says);
            half.ending = ending;
            let text = half.judge(&outcome).err().map(|error| error.to_string());
            match (text, fault) {
                (None, None) => {}
                (Some(text), Some(part)) => assert!(text.contains(part), "{text}"),
                (text, fault) => panic!("{script}: {text:?}, expected {fault:?}"),
            }
        };
        check("echo ' 8\t5   1.5'", Ending::Well, &["8 5"], None);
        check("echo 'wc recv id=1'", Ending::Well, &["* recv"], None);
        check(
            "echo 8 5",
            Ending::Well,
            &["8 5 *"],
            Some("no line `8 5 *`"),
        );
        check("echo 18 5", Ending::Well, &["8 5"], Some("no line `8 5`"));
        check(
            "echo 8 5; exit 3",
            Ending::Well,
            &["8 5"],
            Some("exit status: 3"),
        );
        check("echo 8 5; exit 3", Ending::Somehow, &["8 5"], None);
        check("exit 3", Ending::Somehow, &["8 5"], Some("no line"));
    }
}
