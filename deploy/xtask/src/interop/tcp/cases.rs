//! The cases: what is served, over what link, and what a peer does with it.

use std::fmt;

/// All cases.
pub fn all() -> impl Iterator<Item = &'static Case> {
    [
        HTTP, ECHO, MEASURED, FILES, HOSTILE, WINDOWS, CAPTURED, CROWDS,
    ]
    .into_iter()
    .flatten()
}

/// A command of ours and its peer.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// A name of its own.
    pub name: &'static str,
    /// The words behind `warpwire`: of a service, or of a file that is sent or received.
    pub ours: &'static str,
    /// What the link does to frames in both directions: options of a soft NIC. Empty: a plain one.
    pub link: &'static str,
    /// Linux's congestion control.
    pub congestion: &'static str,
    /// A shell's words at Linux's side. They fail when anything is not as it must be.
    pub peer: &'static str,
    /// How connections end.
    pub ending: Ending,
    /// Whether the service must have answered by cookies.
    pub bakes: bool,
}

/// What a command of ours does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It serves until it is told to end.
    Serves,
    /// It connects, sends a file and ends.
    Sends,
    /// It listens, receives a file and ends.
    Receives,
}

impl Role {
    /// What it prints once the peer may begin; nothing if the peer may begin before it.
    pub(super) const fn ready(self) -> Option<&'static str> {
        match self {
            Self::Serves => Some("\nMTU "),
            Self::Sends => None,
            Self::Receives => Some("waiting at [fd79::2]"),
        }
    }
}

/// How the connections of a service end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All of them in order.
    Well,
    /// Some are left by the peer in the midst of things.
    Somehow,
}

impl Case {
    /// What the command of ours does.
    pub(super) fn role(&self) -> Role {
        match self.ours.split_whitespace().nth(1) {
            Some("send") => Role::Sends,
            Some("recv") => Role::Receives,
            _ => Role::Serves,
        }
    }

    /// Whether what the command of ours said is as it must be; else what is wrong.
    pub(super) fn judge(&self, said: &str) -> Result<(), String> {
        let verb = match self.role() {
            Role::Serves => return self.judge_service(said),
            Role::Sends => "sent",
            Role::Receives => "received",
        };
        let all = said.lines().any(|line| {
            let mut words = line.split(' ');
            words.next() == Some(verb) && words.next().is_some_and(|count| count != "0")
        });
        match all {
            true => Ok(()),
            false => Err(format!("it does not say what it {verb}")),
        }
    }

    fn judge_service(&self, said: &str) -> Result<(), String> {
        let before = |words: &str| -> Option<u64> {
            let head = said.split_once(words)?.0;
            head.rsplit([' ', '\n']).next()?.parse().ok()
        };
        let broken = before(" broke;").ok_or("the service does not say what broke")?;
        if self.ending == Ending::Well && broken > 0 {
            return Err(format!("{broken} connections broke"));
        }
        let cookies = before(" cookies;").ok_or("the service does not say what it answered")?;
        match self.bakes && cookies == 0 {
            true => Err("no cookie was baked".to_owned()),
            false => Ok(()),
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name, ours, peer, ..
        } = self;
        write!(out, "{name}: {ours}")?;
        if !self.link.is_empty() {
            write!(out, " ({})", self.link)?;
        }
        write!(out, " | {}: {}", self.congestion, peer.trim())
    }
}

const fn case(name: &'static str, ours: &'static str, peer: &'static str) -> Case {
    Case {
        name,
        ours,
        link: "",
        congestion: "cubic",
        peer,
        ending: Ending::Well,
        bakes: false,
    }
}

/// The same over a link that does something to frames.
const fn over(link: &'static str, mut case: Case) -> Case {
    case.link = link;
    case
}

/// The same with another congestion control of Linux.
const fn by(congestion: &'static str, mut case: Case) -> Case {
    case.congestion = congestion;
    case
}

/// The same with a peer that leaves in the midst of things.
const fn left(mut case: Case) -> Case {
    case.ending = Ending::Somehow;
    case
}

/// The same with a listener that must bake cookies.
const fn baking(mut case: Case) -> Case {
    case.bakes = true;
    case
}

const SITE: &str = "serve http --root site";

const HTTP: &[Case] = &[
    case(
        "curl fetches 1 B, 1 KiB, 1, 20 and 100 MiB over IPv4",
        SITE,
        r#"for bytes in 1 1024 1048576 20971520 104857600; do
               fetch http://10.79.0.2/$bytes | sha256sum > came
               sha256sum < site/$bytes | cmp - came
           done
           echo equal hashes: 5"#,
    ),
    case(
        "curl fetches 1 B, 1 KiB, 1, 20 and 100 MiB over IPv6",
        SITE,
        r#"for bytes in 1 1024 1048576 20971520 104857600; do
               fetch "http://[fd79::2]/$bytes" | sha256sum > came
               sha256sum < site/$bytes | cmp - came
           done
           echo equal hashes: 5"#,
    ),
    case(
        "curl sends 1,000 requests over one connection",
        SITE,
        r#"fetch "http://10.79.0.2/1024?[1-1000]" --output /dev/null \
               --write-out '%{http_code} %{size_download} %{num_connects}\n' |
               sort | uniq -c | tr -s ' \n' ' ' > answers
           [ "$(cat answers)" = " 999 200 1024 0 1 200 1024 1 " ] || { cat answers; exit 1; }
           echo answers: 1000, connections: 1"#,
    ),
    left(case(
        "wrk with 256 connections",
        SITE,
        r#"wrk --threads 2 --connections 256 --duration ${LOAD_SECONDS}s --timeout 10s \
               http://10.79.0.2/1024 > told
           if grep -E 'Socket errors|Non-2xx' told; then exit 1; fi
           grep -o '[1-9][0-9]* requests in .*' told | sed 's/^/answered: /'"#,
    )),
];

const ECHO: &[Case] = &[
    case(
        "echo, 64 MiB each way over IPv4, cubic",
        "serve echo",
        "peer echo 10.79.0.2 7 67108864",
    ),
    by(
        "reno",
        case(
            "echo, 64 MiB each way over IPv6, reno",
            "serve echo",
            "peer echo fd79::2 7 67108864",
        ),
    ),
    by(
        "bbr",
        case(
            "echo, 64 MiB each way over IPv4, bbr",
            "serve echo",
            "peer echo 10.79.0.2 7 67108864",
        ),
    ),
    case(
        "socat, the same hash each way over IPv4",
        "serve echo",
        r#"rm -f sent
           head -c $SOCAT_BYTES /dev/urandom | tee >(sha256sum > sent) |
               socat -t 60 - TCP4:10.79.0.2:7 | tee >(wc -c > count) | sha256sum > came
           until [ -s sent ]; do sleep 0.1; done
           cmp sent came
           [ "$(cat count)" = $SOCAT_BYTES ]
           echo "each way $SOCAT_BYTES bytes""#,
    ),
    case(
        "socat, the same hash each way over IPv6",
        "serve echo",
        r#"rm -f sent
           head -c $SOCAT_BYTES /dev/urandom | tee >(sha256sum > sent) |
               socat -t 60 - "TCP6:[fd79::2]:7" | tee >(wc -c > count) | sha256sum > came
           until [ -s sent ]; do sleep 0.1; done
           cmp sent came
           [ "$(cat count)" = $SOCAT_BYTES ]
           echo "each way $SOCAT_BYTES bytes""#,
    ),
];

/// Bytes that a stock client measures: up, down, three streams each way, both ways at a time. A
/// client that has received for long enough leaves the rest unread, which resets the connection.
const MEASURED: &[Case] = &[
    left(case(
        "iperf3 measures up, down, by 3 streams and both ways over IPv4",
        "serve iperf3",
        "measure 10.79.0.2",
    )),
    left(case(
        "iperf3 measures up, down, by 3 streams and both ways over IPv6",
        "serve iperf3",
        "measure fd79::2",
    )),
];

const LOSSY: &str = "seed=8,loss_ppm=10000,duplicate_ppm=5000,reorder_ppm=5000,reorder_us=300";

/// Files between `warpwire stream` and a program of Linux: each end is once the one that connects.
const FILES: &[Case] = &[
    case(
        "a file of 100 MiB is sent to Linux over IPv4",
        "stream send site/104857600 --to 10.79.0.1:5300",
        "peer take 10.79.0.1 5300 site/104857600",
    ),
    case(
        "a file of 100 MiB is sent to Linux over IPv6",
        "stream send site/104857600 --to [fd79::1]:5300",
        "peer take fd79::1 5300 site/104857600",
    ),
    case(
        "a file of 100 MiB comes from Linux over IPv4",
        "stream recv came",
        "peer give 10.79.0.2 5300 site/104857600; cmp came site/104857600",
    ),
    case(
        "a file of 100 MiB comes from Linux over IPv6",
        "stream recv came",
        "peer give fd79::2 5300 site/104857600; cmp came site/104857600",
    ),
    over(
        LOSSY,
        case(
            "a file is sent to Linux over a bad link",
            "stream send lossy --to 10.79.0.1:5300",
            "peer take 10.79.0.1 5300 lossy",
        ),
    ),
    over(
        LOSSY,
        by(
            "bbr",
            case(
                "a file comes from Linux, bbr, over a bad link",
                "stream recv came",
                "peer give fd79::2 5300 lossy; cmp came lossy",
            ),
        ),
    ),
];

const HOSTILE: &[Case] = &[
    over(
        "seed=1,loss_ppm=1000",
        case(
            "loss of 0.1 %, 64 MiB each way",
            "serve echo",
            "peer echo 10.79.0.2 7 67108864",
        ),
    ),
    over(
        "seed=2,loss_ppm=10000",
        case(
            "loss of 1 %, 64 MiB each way",
            "serve echo",
            "peer echo fd79::2 7 67108864",
        ),
    ),
    over(
        "seed=3,loss_ppm=50000",
        case(
            "loss of 5 %, much each way",
            "serve echo",
            "peer echo 10.79.0.2 7 $LOSSY_BYTES",
        ),
    ),
    over(
        "seed=4,duplicate_ppm=50000",
        case(
            "duplicates of 5 %, 64 MiB each way",
            "serve echo",
            "peer echo 10.79.0.2 7 67108864",
        ),
    ),
    over(
        "seed=5,reorder_ppm=50000,reorder_us=300",
        case(
            "delays of 5 % by 300 us, 64 MiB each way",
            "serve echo",
            "peer echo fd79::2 7 67108864",
        ),
    ),
    over(
        "seed=6,corrupt_ppm=10000",
        case(
            "corruption of 1 %, 64 MiB each way",
            "serve echo",
            "peer echo 10.79.0.2 7 67108864",
        ),
    ),
    over(
        "seed=7,loss_ppm=5000,duplicate_ppm=5000,reorder_ppm=5000,reorder_us=300,corrupt_ppm=5000",
        by(
            "bbr",
            case(
                "all of these, 0.5 % each, 64 MiB each way, bbr",
                "serve echo",
                "peer echo 10.79.0.2 7 67108864",
            ),
        ),
    ),
    over(
        "seed=9,loss_ppm=10000,duplicate_ppm=10000,reorder_ppm=10000,reorder_us=300,\
         corrupt_ppm=10000",
        case(
            "all of these, 1 % each, much each way",
            "serve echo",
            "peer echo fd79::2 7 $LOSSY_BYTES",
        ),
    ),
    over(
        "seed=10,loss_ppm=50000,duplicate_ppm=10000,reorder_ppm=10000,reorder_us=300,\
         corrupt_ppm=10000",
        case(
            "loss of 5 %, 1 % of the others each, much each way",
            "serve echo",
            "peer echo 10.79.0.2 7 $LOSSY_BYTES",
        ),
    ),
];

const WINDOWS: &[Case] = &[
    case(
        "the peer's window is closed for a while",
        "serve source --bytes 8388608",
        "peer source 10.79.0.2 19 8388608 $CLOSED_SECONDS",
    ),
    case(
        "the windows of both are closed for a while",
        "serve echo",
        "peer echo fd79::2 7 8388608 $CLOSED_SECONDS",
    ),
];

/// What tshark's expert says of a run over a plain link. It takes a probe for the loss of a tail
/// for a retransmission: there may be one in a thousand segments. An echo whose peer reads later
/// than it writes closes its window, as it must: that is told only.
const CAPTURED: &[Case] = &[
    case(
        "tshark's expert finds nothing lost in 16 MiB each way",
        "serve echo",
        r#"capture peer echo 10.79.0.2 7 16777216
           lost=$(count 'tcp.analysis.lost_segment || tcp.analysis.ack_lost_segment ||
                         tcp.analysis.out_of_order || tcp.analysis.fast_retransmission')
           again=$(count 'tcp.analysis.retransmission')
           closed=$(count 'tcp.analysis.zero_window')
           all=$(count tcp)
           echo "of $all segments $lost lost or out of order, $again probes, $closed no window"
           [ $all -gt 10000 ] && [ $lost = 0 ] && [ $((again * 1000)) -le $all ]"#,
    ),
    // What was lost comes once more, which it calls out of order where it saw the gap, and no more
    // than that: 1.5 % are the 1 % that are lost with what chance and busy machines add.
    over(
        "seed=11,loss_ppm=10000",
        case(
            "tshark's expert finds no more than a loss of 1 % causes",
            "serve echo",
            r#"capture peer echo 10.79.0.2 7 16777216
               again=$(count 'tcp.analysis.retransmission || tcp.analysis.out_of_order')
               vain=$(count 'tcp.analysis.spurious_retransmission')
               unseen=$(count 'tcp.analysis.ack_lost_segment')
               all=$(count tcp)
               echo "of $all segments $again again, $vain of them in vain"
               [ $all -gt 10000 ] && [ $unseen = 0 ] && [ $((vain * 500)) -le $all ] &&
                   [ $((again * 1000)) -le $((all * 15)) ]"#,
        ),
    ),
];

const CROWDS: &[Case] = &[
    left(case(
        "ten thousand connections at a time",
        "serve echo --connections 10000 --ring 8192",
        "peer many 10.79.0.2 7 10000 $EACH_BYTES $SERVER",
    )),
    left(baking(case(
        "a flood of SYNs while a connection goes on",
        "serve echo",
        "peer flood 10.79.0.2 7 $FLOOD_SEGMENTS $SERVER v0 $OUR_MAC",
    ))),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_their_own() {
        let names: HashSet<&str> = all().map(|case| case.name).collect();
        assert_eq!(names.len(), all().count());
    }

    #[test]
    fn a_service_is_judged_by_what_it_says_at_its_end() {
        let check = |case: Case, broken, cookies, fault: Option<&str>| {
            let said = format!(
                "MTU 1500\n3 connections, {broken} broke; 1 bytes came\nengine: 0 resets, \
                 {cookies} cookies; not answered: 0\n"
            );
            assert_eq!(case.judge(&said).err().as_deref(), fault);
        };
        let plain = case("a", "serve echo", "true");
        check(plain, 0, 0, None);
        check(plain, 2, 0, Some("2 connections broke"));
        check(left(plain), 2, 0, None);
        check(baking(plain), 0, 0, Some("no cookie was baked"));
        check(baking(plain), 0, 7, None);
        assert!(plain.judge("killed").is_err());
    }

    #[test]
    fn a_file_is_judged_by_what_is_said_of_it() {
        let check = |ours, said: &str, fault: Option<&str>| {
            let judged = case("a", ours, "true").judge(said);
            assert_eq!(judged.err().as_deref(), fault, "{ours}: {said}");
        };
        let missing = |verb| format!("it does not say what it {verb}");
        check("stream send a", "sent 7 bytes to 10.79.0.1:5300 in", None);
        check("stream recv a", "waiting\nreceived 7 bytes from a", None);
        check("stream send a", "sent 0 bytes to a", Some(&missing("sent")));
        check("stream recv a", "sent 7 bytes", Some(&missing("received")));
        check("stream recv a", "", Some(&missing("received")));
    }
}
