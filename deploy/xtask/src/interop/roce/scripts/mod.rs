//! The cases: who runs what, where, and what it must say.

use crate::Error;
use crate::process::Outcome;
use std::fmt;
use std::time::Duration;

mod by_cm;
mod guests;
mod operations;
mod ours;

/// All cases: between the peers first.
pub fn all() -> impl Iterator<Item = &'static Case> {
    let lists = [
        guests::CASES,
        ours::OURS,
        by_cm::BY_CM,
        operations::OPERATIONS,
    ];
    lists.into_iter().flatten()
}

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

/// A server and a client, each at a place.
const fn both(
    name: &'static str,
    probe: &'static str,
    (server_at, (server, server_says)): (Place, Words),
    (client_at, (client, client_says)): (Place, Words),
) -> Case {
    Case {
        name,
        server: Some(half(server_at, probe, server, server_says)),
        client: half(client_at, "", client, client_says),
    }
}

/// A server at the left guest, which ends by itself, and a client at the right one.
const fn guests(name: &'static str, probe: &'static str, server: Words, client: Words) -> Case {
    both(name, probe, (Place::Left, server), (Place::Right, client))
}

/// rping between the guests.
const fn rping(name: &'static str, server: &'static str, client: Words) -> Case {
    somehow(guests(
        name,
        CM,
        (server, &["server DISCONNECT EVENT..."]),
        client,
    ))
}

/// A server at the left guest, that listens by TCP or by RDMA-CM, and our command at the host.
const fn we_ask(name: &'static str, probe: &'static str, server: Words, client: Words) -> Case {
    both(name, probe, (Place::Left, server), (Place::Host, client))
}

/// Our command as the server at the host, and a client at the left guest.
const fn we_serve(name: &'static str, probe: &'static str, server: Words, client: Words) -> Case {
    both(name, probe, (Place::Host, server), (Place::Left, client))
}

/// The same with a client whose status means nothing.
const fn somehow(mut case: Case) -> Case {
    case.client.ending = Ending::Somehow;
    case
}

/// The same with a server that goes on until it is told to end.
const fn told(mut case: Case) -> Case {
    if let Some(mut server) = case.server {
        server.ending = Ending::Told;
        case.server = Some(server);
    }
    case
}

/// Lines that must be written.
type Says = &'static [&'static str];

/// A shell's words, and what they must write.
type Words = (&'static str, Says);

/// Each half ends within this.
pub const LIMIT: Duration = Duration::from_secs(120);

/// Succeeds when somebody listens on the port of perftest and ibv_*_pingpong.
const TCP: &str = "ss -Htln | grep -q ':18515 '";
/// Succeeds when somebody listens by rdma_cm.
const CM: &str = "rdma resource show cm_id | grep -q LISTEN";
/// Succeeds when our command has a device at the host: by then its port of RDMA-CM is open, or will
/// be before a guest has said a word.
const DEVICE: &str = "ip -d link show dev ww0 | grep -q xdp && sleep 0.2";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{self, Show};
    use std::collections::HashSet;
    use std::process::Command;

    #[test]
    fn names_are_their_own_and_servers_have_a_probe() {
        let names: HashSet<&str> = all().map(|case| case.name).collect();
        assert_eq!(names.len(), all().count());
        for case in all() {
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
