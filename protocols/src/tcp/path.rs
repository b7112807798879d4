//! What the network says of the path (ICMP), believed only of numbers that are under way:
//! RFC 5927; RFC 1191 and RFC 8201 for the MTU.

use super::config::Config;
use super::connection::Connection;
use super::hot::Flags;
use super::state::{Cause, Events, State};
use crate::wire::tcp::TcpSequence;

impl Connection {
    /// The network said that a segment of this number found no way (ICMP destination unreachable).
    /// Ends a connection that is being opened; RFC 5927 section 5.2 makes the others go on.
    pub fn on_unreachable(&mut self, sequence: TcpSequence) -> Events {
        let is_early = matches!(self.hot.state, State::SynSent | State::SynReceived);
        match is_early && self.is_under_way(sequence) {
            true => self.end(Cause::Unreachable),
            false => Events::empty(),
        }
    }

    /// The network said that a segment of this number was longer than the `mtu` of a link, in bytes
    /// with IP header. What is under way is cut anew and repeated; a number that is not under way
    /// changes nothing (RFC 5927 section 7). No way is narrower than 68 bytes (RFC 791 section
    /// 3.2), or 1280 over IPv6 (RFC 8200 section 5).
    pub fn on_too_big(&mut self, sequence: TcpSequence, mtu: u16, config: &Config) {
        let is_open = self.hot.state.is_synchronized() && self.hot.state != State::TimeWait;
        // Of an acknowledgement without payload the next number is quoted: with all options it is
        // longer than the narrowest ways take.
        let is_bare = sequence == self.hot.nxt
            && mtu < config.ip_header_bytes + TCP_HEADER_BYTES + MOST_OPTIONS;
        if !is_open || !(self.is_under_way(sequence) || is_bare) {
            return;
        }
        let size = mtu
            .max(config.least_mtu())
            .saturating_sub(config.ip_header_bytes + TCP_HEADER_BYTES);
        if size >= self.hot.segment_bytes {
            return;
        }
        let hot = &mut self.hot;
        hot.segment_bytes = size;
        if is_bare {
            return;
        }
        // Not congestion: the window stays.
        hot.lost_to = hot.nxt;
        hot.flags.insert(Flags::REPEAT_DUE);
        hot.flags.remove(Flags::TIMING);
        let flight = self.flight();
        self.cold.board.forget_repetitions(&flight);
    }

    fn is_under_way(&self, sequence: TcpSequence) -> bool {
        !sequence.is_before(self.hot.una) && sequence.is_before(self.hot.nxt)
    }
}

const TCP_HEADER_BYTES: u16 = 20;
/// Bytes of options that a segment can have.
const MOST_OPTIONS: u16 = 40;
