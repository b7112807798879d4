//! Words and rules as tables; and two ends over a wire that is late, against the bytes themselves.

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

const SMALL: Terms = Terms {
    send_bytes: 16,
    own: Inbox { bytes: 8, words: 4 },
    peer: Inbox { bytes: 8, words: 4 },
    write_bytes: 6,
};

#[test]
fn words() {
    let check = |word: Word, value: u32| {
        assert_eq!(word.value(), value, "{word:?}");
        assert_eq!(Word::from_value(value), Some(word));
    };
    check(Word::Data { bytes: 5 }, 5);
    check(Word::Data { bytes: MOST_DATA }, 0x3fff_ffff);
    check(Word::Credit { words: 0, bytes: 1 }, 0x4000_0001);
    let (words, bytes) = (MOST_WORDS, MOST_CREDIT);
    check(Word::Credit { words, bytes }, 0x7fff_ffff);
    check(Word::Credit { words: 1, bytes: 0 }, 0x4100_0000);
    check(Word::End { position: 7 }, 0x8000_0007);
    check(Word::Abort(Cause(0xffff)), 0xc000_ffff);
    for value in [0xc001_0000, 0xffff_ffff] {
        assert_eq!(Word::from_value(value), None);
    }
}

#[test]
fn terms() {
    let check = |terms: Terms, illegal: Option<Illegal>| {
        assert_eq!(terms.check().err(), illegal, "{terms:?}");
    };
    check(SMALL, None);
    for bytes in [0, 3, 12, MOST_RING + 1, 1 << 31] {
        let illegal = Some(Illegal::Ring { bytes });
        let inbox = Inbox { bytes, words: 4 };
        check(
            Terms {
                send_bytes: bytes,
                ..SMALL
            },
            illegal,
        );
        check(
            Terms {
                own: inbox,
                ..SMALL
            },
            illegal,
        );
        check(
            Terms {
                peer: inbox,
                ..SMALL
            },
            illegal,
        );
    }
    for words in [0, 64] {
        let inbox = Inbox { bytes: 8, words };
        check(
            Terms {
                own: inbox,
                ..SMALL
            },
            Some(Illegal::Words { words }),
        );
        check(
            Terms {
                peer: inbox,
                ..SMALL
            },
            Some(Illegal::Words { words }),
        );
    }
    check(
        Terms {
            write_bytes: 0,
            ..SMALL
        },
        Some(Illegal::NoWrite),
    );
    assert_eq!(SMALL.receives(), 4 + (2 + 4) + 2);
}

fn write(from: u32, to: u32, length: u32) -> Option<Write> {
    Some(Write { from, to, length })
}

#[test]
fn data_is_written_as_far_as_the_credit_goes_and_told_at_its_end() {
    let mut end = Carrier::new(SMALL);
    assert_eq!(end.write(20), 16);
    assert_eq!(end.writable(), 0);
    let first = end.poll().unwrap();
    assert_eq!(first.write, write(0, 0, 6));
    // A quarter of the ring is worth a word.
    assert_eq!(first.word, Some(Word::Data { bytes: 6 }));
    let second = end.poll().unwrap();
    assert_eq!(second.write, write(6, 6, 2));
    assert_eq!(second.word, Some(Word::Data { bytes: 2 }));
    assert_eq!(end.poll(), None);
    end.on_complete(6);
    assert_eq!(end.writable(), 6);
    assert_eq!(
        end.room(),
        [Extent { at: 0, length: 6 }, Extent { at: 0, length: 0 }]
    );
    // Three bytes were read: three more may go.
    let credit = Word::Credit { words: 1, bytes: 3 };
    assert_eq!(end.on_word(credit.value()), Event::Credit(3));
    assert_eq!(end.poll().unwrap().write, write(8, 0, 3));
    assert_eq!(end.poll(), None);
}

#[test]
fn what_cannot_be_told_waits_to_be_written_together() {
    let peer = Inbox {
        bytes: 64,
        words: 2,
    };
    let mut end = Carrier::new(Terms {
        peer,
        send_bytes: 64,
        ..SMALL
    });
    for _ in 0..2 {
        end.write(1);
        assert!(end.poll().unwrap().word.is_some());
    }
    end.write(1);
    end.write(1);
    assert_eq!(end.poll(), None);
    // A full write goes, untold.
    end.write(6);
    assert_eq!(
        end.poll().unwrap(),
        Post {
            write: write(2, 2, 6),
            word: None
        }
    );
    assert_eq!(end.poll(), None);
    let credit = Word::Credit { words: 1, bytes: 0 };
    end.on_word(credit.value());
    let post = end.poll().unwrap();
    assert_eq!(
        (post.write, post.word),
        (write(8, 8, 2), Some(Word::Data { bytes: 8 }))
    );
}

#[test]
fn credits_are_not_a_message_a_read() {
    let own = Inbox {
        bytes: 16,
        words: 8,
    };
    let mut end = Carrier::new(Terms { own, ..SMALL });
    end.on_word(Word::Data { bytes: 16 }.value());
    let mut credits = Vec::new();
    for _ in 0..16 {
        assert_eq!(end.consume(1), 1);
        credits.extend(end.poll());
    }
    let credit = |words, bytes| Post::word(Word::Credit { words, bytes });
    assert_eq!(
        credits,
        [credit(1, 4), credit(0, 4), credit(0, 4), credit(0, 4)]
    );
    assert_eq!(end.consume(1), 0);
    // Words that are not read yet are told to be heard, so that the writer can tell more.
    for _ in 0..4 {
        assert_eq!(end.poll(), None);
        end.on_word(Word::Data { bytes: 1 }.value());
    }
    assert_eq!(end.poll(), Some(credit(4, 0)));
}

#[test]
fn closing_is_for_each_direction() {
    let mut end = Carrier::new(SMALL);
    end.write(3);
    end.close();
    assert_eq!((end.write(1), end.writable()), (0, 0));
    assert_eq!(end.poll().unwrap().word, Some(Word::Data { bytes: 3 }));
    assert_eq!(end.poll(), Some(Post::word(Word::End { position: 3 })));
    assert_eq!((end.poll(), end.ending()), (None, None));
    assert_eq!(end.on_word(Word::Data { bytes: 2 }.value()), Event::Data(2));
    assert_eq!(
        end.on_word(Word::End { position: 2 }.value()),
        Event::PeerEnded
    );
    assert!(!end.is_at_end());
    assert_eq!((end.consume(9), end.is_at_end()), (2, true));
    assert_eq!((end.ending(), end.poll()), (Some(Ending::Closed), None));
    end.abort(Cause(300));
    end.lose();
    assert_eq!((end.ending(), end.poll()), (Some(Ending::Closed), None));
}

#[test]
fn aborts() {
    let mut end = Carrier::new(SMALL);
    end.write(3);
    end.abort(Cause(300));
    end.abort(Cause(301));
    assert_eq!(end.poll(), Some(Post::word(Word::Abort(Cause(300)))));
    assert_eq!((end.poll(), end.write(1)), (None, 0));
    assert_eq!(end.ending(), Some(Ending::Aborted(Cause(300))));
    assert_eq!(end.on_word(Word::Data { bytes: 1 }.value()), Event::Ignored);

    let mut end = Carrier::new(SMALL);
    end.on_word(Word::Data { bytes: 2 }.value());
    assert_eq!(end.on_word(Word::Abort(Cause(300)).value()), Event::Aborted);
    assert_eq!(end.ending(), Some(Ending::AbortedByPeer(Cause(300))));
    assert_eq!((end.poll(), end.readable()), (None, 2));

    let mut end = Carrier::new(SMALL);
    end.lose();
    assert_eq!(
        (end.ending(), end.poll()),
        (Some(Ending::Aborted(Cause::LOST)), None)
    );
    let mut end = Carrier::new(SMALL);
    end.abort(Cause::DEADLINE);
    end.lose();
    assert_eq!(
        (end.ending(), end.poll()),
        (Some(Ending::Aborted(Cause::DEADLINE)), None)
    );
}

#[test]
fn a_peer_that_breaks_the_rules_ends_the_stream() {
    // Words that come before are right; this end has written and told 3 bytes.
    let check = |before: &[Word], wrong: u32| {
        let mut end = Carrier::new(SMALL);
        end.write(3);
        end.poll();
        for word in before {
            assert_ne!(end.on_word(word.value()), Event::Aborted, "{word:?}");
        }
        assert_eq!(end.on_word(wrong), Event::Aborted, "{before:?} {wrong:#x}");
        assert_eq!(end.ending(), Some(Ending::Aborted(Cause::PROTOCOL)));
        assert_eq!(end.poll(), Some(Post::word(Word::Abort(Cause::PROTOCOL))));
        assert_eq!(end.poll(), None);
    };
    let data = |bytes| Word::Data { bytes };
    let credit = |words, bytes| Word::Credit { words, bytes }.value();
    let end = |position| Word::End { position };
    check(&[], data(9).value());
    check(&[data(8)], data(1).value());
    check(&[], data(0).value());
    check(&[data(1); 4], data(1).value());
    check(&[], credit(0, 4));
    check(&[], credit(2, 3));
    check(&[Word::Credit { words: 1, bytes: 3 }], credit(0, 1));
    check(&[], end(1).value());
    check(&[data(2)], end(3).value());
    check(&[end(0)], end(0).value());
    check(&[data(1), end(1)], data(1).value());
    check(&[], 0xc001_0000);
}

/// Numbers by chance, from one seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 32) % u64::from(limit)) as u32
    }
}

/// What is under way in one direction: posts that were made and not carried out, in order.
type Wire = VecDeque<(Post, Vec<u8>)>;

/// An end with its memory, and what its application did.
struct End {
    carrier: Carrier,
    send: Vec<u8>,
    receive: Vec<u8>,
    /// Words that arrived, and that nobody heard.
    words: VecDeque<u32>,
    /// Posts that were carried out, and that nobody knows to be.
    complete: VecDeque<u32>,
    written: u32,
    read: u32,
    total: u32,
    salt: u8,
}

impl End {
    fn new(terms: Terms, send: u32, receive: u32, total: u32, salt: u8) -> Self {
        terms.check().unwrap();
        Self {
            carrier: Carrier::starting_at(terms, send, receive),
            send: vec![0; terms.send_bytes as usize],
            receive: vec![0; terms.own.bytes as usize],
            words: VecDeque::new(),
            complete: VecDeque::new(),
            written: 0,
            read: 0,
            total,
            salt,
        }
    }

    fn byte(index: u32, salt: u8) -> u8 {
        (index.wrapping_mul(0x9e37_79b1) >> 24) as u8 ^ salt
    }

    /// The application writes up to `bytes` bytes, and closes after the last.
    fn write(&mut self, bytes: u32) -> bool {
        let bytes = bytes
            .min(self.total - self.written)
            .min(self.carrier.writable());
        let mut left = bytes;
        for extent in self.carrier.room() {
            let length = extent.length.min(left);
            for at in extent.at..extent.at + length {
                self.send[at as usize] = Self::byte(self.written, self.salt);
                self.written += 1;
            }
            left -= length;
        }
        assert_eq!(self.carrier.write(bytes), bytes);
        let closes = self.written == self.total && self.carrier.output == Output::Open;
        if closes {
            self.carrier.close();
        }
        bytes > 0 || closes
    }

    /// The application reads up to `bytes` bytes; they are those that the peer wrote.
    fn read(&mut self, bytes: u32, salt: u8) -> bool {
        let mut left = bytes;
        for extent in self.carrier.unread() {
            let length = extent.length.min(left);
            for at in extent.at..extent.at + length {
                assert_eq!(
                    self.receive[at as usize],
                    Self::byte(self.read, salt),
                    "{}",
                    self.read
                );
                // What was read may be written again, and is not to be seen again.
                self.receive[at as usize] ^= 0xff;
                self.read += 1;
            }
            left -= length;
        }
        self.carrier.consume(bytes - left) > 0
    }

    /// Posts one message. Its bytes are taken when it is carried out: until it is complete they are
    /// not to change, which the copy made here checks.
    fn post(&mut self, wire: &mut Wire) -> bool {
        let Some(post) = self.carrier.poll() else {
            return false;
        };
        assert!(post.write.is_some() || post.word.is_some());
        wire.push_back((post, self.bytes(&post)));
        true
    }

    fn bytes(&self, post: &Post) -> Vec<u8> {
        let write = post.write.unwrap_or(Write {
            from: 0,
            to: 0,
            length: 0,
        });
        self.send[write.from as usize..][..write.length as usize].to_vec()
    }

    /// The oldest message of this end is carried out at the peer.
    fn deliver(&mut self, wire: &mut Wire, peer: &mut End) -> bool {
        let Some((post, bytes)) = wire.pop_front() else {
            return false;
        };
        assert_eq!(
            self.bytes(&post),
            bytes,
            "bytes changed while they were under way"
        );
        if let Some(write) = post.write {
            let unread = peer.carrier.unread();
            for at in write.to..write.to + write.length {
                let holds = |extent: &Extent| (extent.at..extent.at + extent.length).contains(&at);
                assert!(!unread.iter().any(holds), "written over what was not read");
            }
            peer.receive[write.to as usize..][..bytes.len()].copy_from_slice(&bytes);
        }
        if let Some(word) = post.word {
            peer.words.push_back(word.value());
            let under_way = wire.iter().filter(|(post, _)| post.word.is_some());
            let receives = peer.carrier.terms.receives() as usize;
            assert!(
                peer.words.len() + under_way.count() <= receives,
                "no receive is left"
            );
        }
        self.complete.push_back(post.bytes());
        true
    }

    fn hear(&mut self) -> bool {
        let Some(word) = self.words.pop_front() else {
            return false;
        };
        assert_ne!(self.carrier.on_word(word), Event::Aborted, "{word:#x}");
        true
    }

    fn complete(&mut self) -> bool {
        let done = self.complete.pop_front();
        done.is_some_and(|bytes| {
            self.carrier.on_complete(bytes);
            true
        })
    }
}

/// One of the things that may happen. Returns whether anything did.
fn act(which: u32, size: u32, this: &mut End, peer: &mut End, wire: &mut Wire) -> bool {
    match which {
        0 => this.write(size),
        1 => this.read(size, peer.salt),
        2 => this.post(wire),
        3 => this.deliver(wire, peer),
        4 => this.hear(),
        _ => this.complete(),
    }
}

const ACTS: u32 = 6;

/// Two ends move all their bytes, whatever comes before what; when nothing more can happen, both
/// are at their end.
fn run(terms: [Terms; 2], starts: [u32; 2], totals: [u32; 2], seed: u64, often: u32) {
    let mut chance = Chance(seed | 1);
    let [one, other] = terms;
    let mut one = End::new(one, starts[0], starts[1], totals[0], 0x35);
    let mut other = End::new(other, starts[1], starts[0], totals[1], 0xc9);
    let (mut there, mut back) = (Wire::new(), Wire::new());
    let mut idle = 0;
    while idle < 2 * ACTS {
        // Some acts are rare in some runs, so that the wire, the words or the rings fill up.
        let which = match chance.below(2) {
            0 => often % ACTS,
            _ => chance.below(ACTS),
        };
        let size = 1 + chance.below(40);
        let did = match chance.below(2) {
            0 => act(which, size, &mut one, &mut other, &mut there),
            _ => act(which, size, &mut other, &mut one, &mut back),
        };
        if did {
            idle = 0;
            continue;
        }
        // Nothing by chance: is there anything at all?
        idle += 1;
        if idle > 8 {
            let any = (0..ACTS).any(|which| {
                act(which, size, &mut one, &mut other, &mut there)
                    || act(which, size, &mut other, &mut one, &mut back)
            });
            if !any {
                break;
            }
            idle = 0;
        }
    }
    for (end, peer) in [(&one, &other), (&other, &one)] {
        assert_eq!(
            (end.written, end.read),
            (end.total, peer.total),
            "stuck: {:?}",
            end.carrier
        );
        assert_eq!(end.carrier.ending(), Some(Ending::Closed));
        assert!(end.carrier.is_at_end());
        assert_eq!(end.carrier.freed, end.carrier.written);
    }
}

fn inboxes() -> impl Strategy<Value = Inbox> {
    let words = prop_oneof![1..5_u32, Just(u32::from(MOST_WORDS))];
    (0..8_u32, words).prop_map(|(bits, words)| Inbox {
        bytes: 1 << bits,
        words,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn two_ends_never_wait_for_each_other(
        own in inboxes(),
        peer in inboxes(),
        send_bits in (0..8_u32, 0..8_u32),
        write_bytes in prop_oneof![1..10_u32, Just(1 << 20)],
        starts in prop::array::uniform2(prop_oneof![Just(0), 0xffff_ff00..=u32::MAX]),
        totals in prop::array::uniform2(prop_oneof![0..20_u32, 0..1500_u32]),
        seed in any::<u64>(),
        often in 0..ACTS,
    ) {
        let one = Terms { send_bytes: 1 << send_bits.0, own, peer, write_bytes };
        run([one, one.mirrored(1 << send_bits.1)], starts, totals, seed, often);
    }

    /// Whatever a peer says, positions keep their order, and what is written stays within bounds.
    #[test]
    fn any_words_are_survived(
        words in prop::collection::vec(
            prop_oneof![any::<u32>(), 0..9_u32, 0x4000_0000..0x4200_0009_u32],
            0..40,
        ),
        seed in any::<u64>(),
    ) {
        let mut chance = Chance(seed | 1);
        let mut end = Carrier::new(SMALL);
        for word in words {
            end.write(chance.below(20));
            if let Some(Post { write: Some(write), .. }) = end.poll() {
                prop_assert!(write.from + write.length <= 16 && write.to + write.length <= 8);
            }
            end.on_complete(chance.below(9));
            end.on_word(word);
            end.consume(chance.below(9));
            prop_assert!(end.readable() <= 8 && end.writable() <= 16);
            prop_assert!(end.limit.wrapping_sub(end.sent) <= 8);
        }
    }
}
