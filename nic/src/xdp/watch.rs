//! Whether the interface is still there and switched on, as the kernel says when asked.

use std::sync::{Mutex, PoisonError};

use crate::error::Error;
use crate::interfaces::Interface;
use crate::netlink::{Netlink, u32_at};
use crate::trouble::{Severity, Trouble};

/// Asks after one interface, in the network namespace that it was made in.
#[derive(Debug)]
pub(super) struct Watch {
    nic: String,
    interface: String,
    index: u32,
    /// Queues that are open, and those that the interface has.
    queues: (u32, u32),
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    netlink: Netlink,
    /// Troubles that were seen, each kept for the report.
    seen: Seen,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    is_gone: bool,
    was_down: bool,
    lost_carrier: bool,
    had_carrier: bool,
}

impl Watch {
    /// Looks for the first time. Whoever has no carrier now does not lose it later. Of the queues
    /// that `interface` has, so many are open.
    pub(super) fn new(nic: String, interface: &Interface, open: u32) -> std::io::Result<Self> {
        let watch = Self {
            nic,
            interface: interface.name.clone(),
            index: interface.index,
            queues: (open, interface.receive_queues),
            state: Mutex::new(State {
                netlink: Netlink::open(libc::NETLINK_ROUTE)?,
                seen: Seen::default(),
            }),
        };
        watch.look();
        Ok(watch)
    }

    /// What went wrong until now.
    pub(super) fn troubles(&self) -> Vec<Trouble> {
        let seen = self.look();
        let name = &self.interface;
        let (open, there) = self.queues;
        let known = [
            (
                open < there,
                Severity::Warning,
                format!(
                    "only {open} of the {there} receive queues of {name} are open: frames that \
                     arrive on the others, whoever sent them, pass to the host"
                ),
                format!(
                    "open them all, or run `ethtool -L {name} combined {open}` (where that is \
                     not known, `ethtool -L {name} rx {open} tx {open}`) before"
                ),
            ),
            (
                seen.is_gone,
                Severity::Fatal,
                format!("the interface {name} was removed, or moved to another network namespace"),
                "bring it back, and start again".to_owned(),
            ),
            (
                seen.was_down,
                Severity::Warning,
                format!("the interface {name} was switched off while it was in use"),
                format!("run `ip link set {name} up`"),
            ),
            (
                seen.lost_carrier,
                Severity::Warning,
                format!("the interface {name} lost its carrier while it was in use"),
                "see to the cable or the other end".to_owned(),
            ),
        ];
        let found = known.into_iter().filter(|(is_so, ..)| *is_so);
        let troubles = found.map(|(_, severity, missing, cure)| Trouble {
            severity,
            error: Error::Unavailable {
                nic: self.nic.clone(),
                missing,
                cure,
            },
        });
        troubles.collect()
    }

    fn look(&self) -> Seen {
        let state = self.state.lock();
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        if state.seen.is_gone {
            return state.seen;
        }
        let mut question = [0; 16];
        if let Some(index) = question.get_mut(4..8) {
            index.copy_from_slice(&self.index.to_ne_bytes());
        }
        let answer = state.netlink.ask(libc::RTM_GETLINK, false, &question);
        match answer {
            Ok(links) => {
                let flags = links.first().and_then(|link| u32_at(&link.body, 8));
                if let Some(flags) = flags {
                    state.seen.note(flags);
                }
            }
            Err(error) => state.seen.is_gone = error.raw_os_error() == Some(libc::ENODEV),
        }
        state.seen
    }
}

impl Seen {
    fn note(&mut self, flags: u32) {
        let is_up = flags & libc::IFF_UP as u32 != 0;
        let carrier = flags & libc::IFF_RUNNING as u32 != 0;
        self.was_down |= !is_up;
        // An interface that is off has no carrier either: one trouble is enough.
        self.lost_carrier |= is_up && self.had_carrier && !carrier;
        self.had_carrier = is_up && carrier;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_befalls_an_interface_is_told_once_it_did() {
        const UP: u32 = libc::IFF_UP as u32;
        const RUNNING: u32 = UP | libc::IFF_RUNNING as u32;
        let cases: [(&[u32], (bool, bool)); 5] = [
            (&[RUNNING, RUNNING], (false, false)),
            (&[UP, UP, RUNNING], (false, false)),
            (&[RUNNING, UP, RUNNING], (false, true)),
            (&[RUNNING, 0, RUNNING], (true, false)),
            (&[RUNNING, 0, UP, RUNNING], (true, false)),
        ];
        for (looks, want) in cases {
            let mut seen = Seen::default();
            looks.iter().for_each(|flags| seen.note(*flags));
            assert_eq!((seen.was_down, seen.lost_carrier), want, "{looks:x?}");
        }
    }

    #[test]
    fn an_interface_that_is_not_there_is_gone() {
        for (name, index, want) in [("lo", 1, 0), ("none", u32::MAX >> 1, 1)] {
            let watch = Watch::new(format!("xdp:{name}"), &interface(name, index), 1);
            let watch = watch.expect("opens");
            let troubles = watch.troubles();
            assert_eq!(troubles.len(), want, "{troubles:?}");
            let fatal = troubles.iter().all(|one| one.severity == Severity::Fatal);
            assert!(fatal, "{troubles:?}");
        }
    }

    #[test]
    fn queues_that_are_not_open_are_told() {
        let there = Interface {
            receive_queues: 4,
            ..interface("lo", 1)
        };
        for (open, want) in [(4, 0), (1, 1)] {
            let watch = Watch::new("xdp:lo".to_owned(), &there, open).expect("opens");
            let troubles = watch.troubles();
            assert_eq!(troubles.len(), want, "{troubles:?}");
            for trouble in troubles {
                assert_eq!(trouble.severity, Severity::Warning);
                let words = trouble.error.to_string();
                assert!(words.contains("1 of the 4 receive queues"), "{words}");
                assert!(words.contains("ethtool -L lo combined 1"), "{words}");
            }
        }
    }

    fn interface(name: &str, index: u32) -> Interface {
        Interface {
            name: name.to_owned(),
            index,
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 1500,
            ethernet: true,
            up: true,
            carrier: true,
            driver: String::new(),
            receive_queues: 1,
            transmit_queues: 1,
            default_route: false,
            program: None,
            native: None,
        }
    }
}
