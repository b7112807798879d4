//! The server's end of a control connection, without the connection.

use super::words::{MOST_WORDS, Parameters, Refusal, State};

/// A control connection whose cookie was read.
#[derive(Debug)]
pub(super) struct Dialogue {
    phase: Phase,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
}

/// What is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Parameters,
    Streams,
    Running,
    Results,
    Done,
}

/// What a client said.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Heard {
    Parameters(Parameters),
    /// The test is over.
    End,
    /// It has told its results, and waits for ours.
    Results,
    /// It has ours, and needs nothing any more.
    Done,
}

impl Phase {
    /// When something happened, for who reads it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Parameters => "before its parameters",
            Self::Streams => "before its streams",
            Self::Running => "while the test ran",
            Self::Results => "before its results",
            Self::Done => "before it had the results",
        }
    }
}

impl Dialogue {
    /// Asks for the parameters.
    pub(super) fn begin() -> Self {
        let mut dialogue = Self {
            phase: Phase::Parameters,
            inbox: Vec::new(),
            outbox: Vec::new(),
        };
        dialogue.say(State::ParameterExchange);
        dialogue
    }

    pub(super) const fn phase(&self) -> Phase {
        self.phase
    }

    /// Takes bytes that came; [`Dialogue::understand`] says what they mean.
    pub(super) fn hear(&mut self, bytes: &[u8]) {
        self.inbox.extend_from_slice(bytes);
    }

    /// What the client said next, if all of it is here.
    pub(super) fn understand(&mut self) -> Result<Option<Heard>, Refusal> {
        match self.phase {
            Phase::Parameters => {
                let Some(words) = self.words()? else {
                    return Ok(None);
                };
                let asked = Parameters::parse(&words)?;
                self.phase = Phase::Streams;
                self.say(State::CreateStreams);
                Ok(Some(Heard::Parameters(asked)))
            }
            Phase::Results => {
                let Some(words) = self.words()? else {
                    return Ok(None);
                };
                serde_json::from_slice::<serde::de::IgnoredAny>(&words)?;
                self.phase = Phase::Done;
                Ok(Some(Heard::Results))
            }
            Phase::Streams => self.state(&[]),
            Phase::Running => self.state(&[(State::TestEnd, Heard::End)]),
            Phase::Done => self.state(&[(State::Done, Heard::Done)]),
        }
    }

    /// All streams are there: the test runs from now on.
    pub(super) fn start(&mut self) {
        self.phase = Phase::Running;
        self.say(State::TestStart);
        self.say(State::TestRunning);
    }

    /// The test is over: asks for the client's results.
    pub(super) fn ask_results(&mut self) {
        self.phase = Phase::Results;
        self.say(State::ExchangeResults);
    }

    /// Tells ours.
    pub(super) fn tell_results(&mut self, words: &[u8]) {
        // 128 streams each way are some 40 KiB.
        let length = u32::try_from(words.len()).unwrap_or(u32::MAX);
        self.outbox.extend_from_slice(&length.to_be_bytes());
        self.outbox.extend_from_slice(words);
        self.say(State::DisplayResults);
    }

    pub(super) fn refuse(&mut self, refusal: &Refusal) {
        if let Some((code, system)) = refusal.code() {
            self.say(State::ServerError);
            self.outbox.extend_from_slice(&code.to_be_bytes());
            self.outbox.extend_from_slice(&system.to_be_bytes());
        }
    }

    pub(super) fn say(&mut self, state: State) {
        self.outbox.push(state.byte());
    }

    /// What is to be written.
    pub(super) fn outbox(&self) -> &[u8] {
        &self.outbox
    }

    /// The first `count` bytes of it were written.
    pub(super) fn written(&mut self, count: usize) {
        self.outbox.drain(..count.min(self.outbox.len()));
    }

    fn state(&mut self, known: &[(State, Heard)]) -> Result<Option<Heard>, Refusal> {
        let Some(&byte) = self.inbox.first() else {
            return Ok(None);
        };
        self.inbox.remove(0);
        if byte == State::ClientTerminate.byte() {
            return Err(Refusal::Left(self.phase.name()));
        }
        let heard = known.iter().find(|(state, _)| state.byte() == byte);
        match heard {
            Some((_, heard)) => Ok(Some(heard.clone())),
            None => Err(Refusal::Message(byte.cast_signed(), self.phase.name())),
        }
    }

    /// JSON behind its length.
    fn words(&mut self) -> Result<Option<Vec<u8>>, Refusal> {
        let Some((length, rest)) = self.inbox.split_first_chunk() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length);
        if length > MOST_WORDS {
            return Err(Refusal::Long(length));
        }
        let Some((words, rest)) = rest.split_at_checked(length as usize) else {
            return Ok(None);
        };
        let words = words.to_vec();
        self.inbox = rest.to_vec();
        Ok(Some(words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(words: &str) -> Vec<u8> {
        let length = (words.len() as u32).to_be_bytes();
        [&length[..], words.as_bytes()].concat()
    }

    fn heard(dialogue: &mut Dialogue, bytes: &[u8]) -> Heard {
        // A byte at a time: nothing is understood before its last one.
        let (last, first) = bytes.split_last().expect("has bytes");
        for byte in first {
            dialogue.hear(&[*byte]);
            assert_eq!(dialogue.understand().expect("is right"), None);
        }
        dialogue.hear(&[*last]);
        dialogue.understand().expect("is right").expect("is whole")
    }

    #[test]
    fn a_test_goes_from_parameters_to_results() {
        let mut dialogue = Dialogue::begin();
        // As iperf 3.12 says it.
        let words = r#"{"tcp":true,"omit":1,"time":0,"num":20000000000,"blockcount":0,"parallel":3,
            "reverse":true,"len":131072,"bandwidth":10000000000,"pacing_timer":1000,
            "client_version":"3.12"}"#;
        let Heard::Parameters(asked) = heard(&mut dialogue, &json(words)) else {
            panic!("asked for nothing");
        };
        assert_eq!((asked.omit, asked.bandwidth), (1, 1e10));
        assert_eq!(asked.directions().collect::<Vec<_>>(), [true; 3]);
        dialogue.start();
        assert_eq!(heard(&mut dialogue, &[4]), Heard::End);
        dialogue.ask_results();
        assert_eq!(heard(&mut dialogue, &json("{}")), Heard::Results);
        dialogue.tell_results(b"{}");
        assert_eq!(dialogue.outbox(), b"\x09\x0a\x01\x02\x0d\0\0\0\x02{}\x0e");
        dialogue.written(11);
        assert_eq!(dialogue.outbox(), [14]);
        assert_eq!(heard(&mut dialogue, &[16]), Heard::Done);
    }

    #[test]
    fn both_directions_are_opened_one_after_the_other() {
        for (words, want) in [
            (r#"{"parallel":2}"#, &[false, false][..]),
            (r#"{"parallel":1,"reverse":true}"#, &[true]),
            (
                r#"{"parallel":2,"bidirectional":true}"#,
                &[false, false, true, true],
            ),
        ] {
            let asked = Parameters::parse(words.as_bytes()).expect(words);
            assert_eq!(asked.directions().collect::<Vec<_>>(), want, "{words}");
        }
    }

    #[test]
    fn what_is_not_served_is_refused_with_its_code() {
        let cases: [(Vec<u8>, u8, &str); 9] = [
            (json(r#"{"udp":true,"parallel":1}"#), 131, "only TCP"),
            (json(r#"{"sctp":true,"parallel":1}"#), 131, "only TCP"),
            (json(r#"{"parallel":0}"#), 6, "0 streams"),
            (json(r#"{"parallel":1000}"#), 6, "1000 streams"),
            (json(r#"{"parallel":1,"omit":601}"#), 12, "601 s"),
            (json(r#"{"parallel":"many"}"#), 114, "JSON"),
            (json("[["), 114, "JSON"),
            (vec![0xff; 4], 114, "4294967295 bytes"),
            (
                json(r#"{"parallel":1,"reverse":true,"congestion":"reno"}"#),
                134,
                "`reno`",
            ),
        ];
        for (bytes, code, want) in cases {
            let mut dialogue = Dialogue::begin();
            dialogue.written(1);
            dialogue.hear(&bytes);
            let refusal = dialogue.understand().expect_err(want);
            assert!(refusal.to_string().contains(want), "{refusal}");
            dialogue.refuse(&refusal);
            let said = dialogue.outbox();
            assert_eq!((said[0], said[4], said.len()), (0xfe, code, 9), "{refusal}");
        }
    }

    #[test]
    fn states_that_are_not_expected_end_it() {
        for (byte, want) in [(12, "it left while"), (7, "said 7"), (0xf0, "said -16")] {
            let mut dialogue = Dialogue::begin();
            dialogue.start();
            dialogue.hear(&[byte]);
            let refusal = dialogue.understand().expect_err(want);
            assert!(refusal.to_string().contains(want), "{refusal}");
        }
    }
}
