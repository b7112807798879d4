//! The language of the scripts: a line is an optional time and one thing that is done or expected.
//!
//! ```text
//! < S 0 win 65535 <mss 1000,sackok>    the peer sends a segment (numbers count from its SYN)
//! > S. 0 ack 1                         a segment is sent now, and it is the first that is
//! +200ms > . 1:1001 ack 1              nothing is sent for 200 ms, then this
//! +1ms..500ms > . ack 1001             within these bounds
//! +3s silence                          nothing is sent for so long
//! write 1000 | read 10 | close | abort what the application does
//! state Established | readable 10 | cause none | event CONNECTED | stat cwnd <= 3000
//! ```
//! Flags are letters: `S` SYN, `F` FIN, `R` RST, `P` PSH, `.` ACK, `E` ECE, `W` CWR, `U` URG, `-`
//! none, `*` any (`R*`: RST and any others). In an expectation PSH, windows, marks and options
//! count only where they are written. The whole language is what `run` understands.

use std::ops::RangeInclusive;

/// A line that was read.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// When, from now on; `None`: now.
    pub(crate) wait_ns: Option<RangeInclusive<u64>>,
    pub(crate) step: Step,
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// The peer sends.
    Inject(Packet),
    /// We send.
    Expect(Packet),
    Silence,
    /// Whatever was sent is of no interest.
    Drain,
    /// Whatever is sent while time passes is of no interest.
    Pass,
    /// Anything else: words.
    Words(Vec<String>),
}

/// A segment; fields that are not written are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) flags: String,
    pub(crate) from: Option<u32>,
    pub(crate) to: Option<u32>,
    pub(crate) acknowledgement: Option<u32>,
    pub(crate) window: Option<u32>,
    pub(crate) options: Vec<Choice>,
    /// Marked CE where it is injected, ECT where it is expected.
    pub(crate) marked: Option<bool>,
    pub(crate) push: Option<bool>,
    /// What the payload consists of.
    pub(crate) fill: u8,
    /// Whatever was sent before is of no interest until the next `drain`.
    pub(crate) anyway: bool,
}

/// An option as a script writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Mss(u16),
    /// A shift; in an expectation, of whatever.
    Scale(Option<u8>),
    SackAllowed,
    /// Blocks from and up to.
    Sack(Vec<(u32, u32)>),
    /// Value and echo. The peer's clock counts as it likes, ours from our first value on.
    Time {
        value: Option<u32>,
        echo: Option<u32>,
    },
    /// Is not there: `nosack`, `nots`, `noscale`, `nosackok`, `nomss`.
    Without(String),
}

impl Packet {
    /// Payload bytes.
    pub(crate) fn length(&self) -> u32 {
        let from = self.from.unwrap_or(0);
        self.to.map_or(0, |to| to.wrapping_sub(from))
    }
}

/// Reads a line; nothing of an empty one.
pub(crate) fn read(text: &str) -> Result<Option<Line>, String> {
    let text = text.split('#').next().unwrap_or("").trim();
    if text.is_empty() {
        return Ok(None);
    }
    let (wait_ns, rest) = match text.strip_prefix('+') {
        None => (None, text),
        Some(rest) => {
            let (time, rest) = rest.split_once(' ').ok_or("a time alone")?;
            (Some(wait(time)?), rest.trim())
        }
    };
    let (head, tail) = rest.split_once(' ').unwrap_or((rest, ""));
    let step = match head {
        "<" => Step::Inject(packet(tail)?),
        ">" => Step::Expect(packet(tail)?),
        "silence" => Step::Silence,
        "drain" => Step::Drain,
        "pass" => Step::Pass,
        _ => Step::Words(rest.split_whitespace().map(str::to_owned).collect()),
    };
    Ok(Some(Line { wait_ns, step }))
}

fn wait(text: &str) -> Result<RangeInclusive<u64>, String> {
    match text.split_once("..") {
        None => time(text).map(|time| time..=time),
        Some((from, to)) => Ok(time(from)?..=time(to)?),
    }
}

/// Nanoseconds of `200ms` and the like.
pub(crate) fn time(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 6] = [
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = &text[digits.len()..];
    let of = UNITS.iter().find(|(name, _)| *name == unit);
    match (digits.parse::<u64>(), of) {
        (Ok(count), Some((_, unit))) => Ok(count * unit),
        _ => Err(format!("`{text}` is no time")),
    }
}

fn packet(text: &str) -> Result<Packet, String> {
    let (text, options) = match text.split_once('<') {
        None => (text.to_owned(), String::new()),
        Some((before, rest)) => {
            let (options, after) = rest.split_once('>').ok_or("options without an end")?;
            (format!("{before} {after}"), options.to_owned())
        }
    };
    let mut words = text.split_whitespace();
    let mut packet = Packet {
        flags: words.next().ok_or("no flags")?.to_owned(),
        fill: b'x',
        ..Packet::default()
    };
    if let Some(letter) = packet
        .flags
        .chars()
        .find(|one| !"SFRP.EWU-*".contains(*one))
    {
        return Err(format!("`{letter}` is no flag"));
    }
    while let Some(word) = words.next() {
        let mut next = || words.next().ok_or(format!("`{word}` of what?"));
        match word {
            "ack" => packet.acknowledgement = Some(number(next()?)?),
            "win" => packet.window = Some(number(next()?)?),
            "fill" => packet.fill = next()?.as_bytes()[0],
            "ce" | "ect" => packet.marked = Some(true),
            "noect" => packet.marked = Some(false),
            "push" => packet.push = Some(true),
            "nopush" => packet.push = Some(false),
            "anyway" => packet.anyway = true,
            range => {
                let (from, to) = range.split_once(':').unwrap_or((range, range));
                packet.from = Some(number(from)?);
                packet.to = Some(number(to)?);
            }
        }
    }
    for option in options
        .split(',')
        .filter(|option| !option.trim().is_empty())
    {
        packet.options.push(choice(option.trim())?);
    }
    Ok(packet)
}

fn choice(text: &str) -> Result<Choice, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        ["mss", size] => Ok(Choice::Mss(number(size)? as u16)),
        ["ws"] => Ok(Choice::Scale(None)),
        ["ws", shift] => Ok(Choice::Scale(Some(number(shift)? as u8))),
        ["sackok"] => Ok(Choice::SackAllowed),
        ["ts"] => Ok(Choice::Time {
            value: None,
            echo: None,
        }),
        ["ts", text] => {
            let (value, echo) = text.split_once(':').unwrap_or((text, ""));
            let part = |text: &str| match text {
                "" => Ok(None),
                text => number(text).map(Some),
            };
            Ok(Choice::Time {
                value: part(value)?,
                echo: part(echo)?,
            })
        }
        ["sack", ref blocks @ ..] => {
            let blocks = blocks.iter().map(|block| {
                let (from, to) = block.split_once(':').ok_or("a block without an end")?;
                Ok((number(from)?, number(to)?))
            });
            blocks.collect::<Result<_, String>>().map(Choice::Sack)
        }
        [word] if word.starts_with("no") => Ok(Choice::Without(word[2..].to_owned())),
        _ => Err(format!("`{text}` is no option")),
    }
}

/// A number; negative ones count back from the start.
pub(crate) fn number(text: &str) -> Result<u32, String> {
    let (sign, digits) = match text.strip_prefix('-') {
        None => (1, text),
        Some(digits) => (u32::MAX, digits),
    };
    let number = digits.parse::<u32>();
    number
        .map(|number| number.wrapping_mul(sign))
        .map_err(|_| format!("`{text}` is no number"))
}

#[test]
fn what_is_wrong_in_a_line_is_said() {
    for (text, want) in [
        ("+10 silence", "`10` is no time"),
        ("< Q 0", "`Q` is no flag"),
        ("> . ack", "`ack` of what?"),
        ("> . 1:2 <tz 3>", "`tz 3` is no option"),
        ("> . one", "`one` is no number"),
    ] {
        assert_eq!(read(text).err().as_deref(), Some(want), "{text}");
    }
    let line = read("+1ms..2s < .E -1:3 ack 7 win 5 <ts 5:6,sack 1:2> ce # why").unwrap();
    let line = line.expect("is not empty");
    assert_eq!(line.wait_ns, Some(1_000_000..=2_000_000_000));
    let Step::Inject(packet) = line.step else {
        panic!("{line:?}");
    };
    assert_eq!((packet.from, packet.length()), (Some(u32::MAX), 4));
    let time = Choice::Time {
        value: Some(5),
        echo: Some(6),
    };
    assert_eq!(packet.options, [time, Choice::Sack(vec![(1, 2)])]);
    assert!(read("  # nothing").unwrap().is_none());
}
