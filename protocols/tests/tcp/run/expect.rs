//! What our end says, and whether a script expects it.

use super::*;

impl Run {
    /// Whatever is sent until then is answered by the same segment.
    pub(super) fn answers(&mut self, until_ns: u64, words: &[String]) -> Result<(), String> {
        self.quiet()?;
        let line = read(&format!("< . 1 {}", words.join(" ")))?;
        let Some(Step::Inject(packet)) = line.map(|line| line.step) else {
            return Err("answers by what?".to_owned());
        };
        let mut count = 0;
        while let Some(at_ns) = self.timer().filter(|at_ns| *at_ns <= until_ns) {
            self.now_ns = self.now_ns.max(at_ns);
            self.on_timer();
            if !self.sent.is_empty() {
                self.sent.clear();
                count += 1;
                self.inject(&packet)?;
            }
        }
        self.now_ns = until_ns;
        match count {
            0 => Err("nothing was sent that could be answered".to_owned()),
            _ => Ok(()),
        }
    }

    pub(super) fn expect(
        &mut self,
        packet: &Packet,
        wait_ns: Option<std::ops::RangeInclusive<u64>>,
    ) -> Result<(), String> {
        let from_ns = self.now_ns;
        let wait = wait_ns.unwrap_or(0..=0);
        if *wait.start() > 0 {
            self.quiet()?;
        }
        // A time alone is meant to within a fiftieth.
        let slack = match wait.start() == wait.end() {
            true if *wait.end() > 0 => (wait.end() / 50).max(1_000_000),
            _ => 0,
        };
        let until_ns = from_ns + wait.end() + slack;
        while self.sent.is_empty() {
            let Some(at_ns) = self.timer().filter(|at_ns| *at_ns <= until_ns) else {
                self.pass(until_ns)?;
                break;
            };
            self.now_ns = self.now_ns.max(at_ns);
            self.on_timer();
        }
        let Some((at_ns, out)) = self.sent.pop_front() else {
            return Err(format!("nothing is sent; {}", self.figures()));
        };
        if at_ns + slack < from_ns + wait.start() {
            let after = since(from_ns, at_ns);
            return Err(format!("too early, after {after:?}: {}", self.tell(&out)));
        }
        let faults = self.compare(packet, &out);
        match faults.is_empty() {
            true => Ok(()),
            false => Err(format!(
                "got: {}\n  wrong: {}; {}",
                self.tell(&out),
                faults.join(", "),
                self.figures()
            )),
        }
    }

    fn figures(&self) -> String {
        match &self.end {
            None => "no connection".to_owned(),
            Some(end) => {
                let figures = end.connection.statistics();
                let after = since(self.start.now_ns, self.now_ns);
                format!("{:?} after {after:?}, {figures:?}", end.connection.state())
            }
        }
    }

    /// Which fields are not as expected.
    fn compare(&self, packet: &Packet, out: &Outgoing) -> Vec<String> {
        let mut faults = Vec::new();
        let mut fault = |is_wrong: bool, name: &str| {
            if is_wrong {
                faults.push(name.to_owned());
            }
        };
        let (want, got) = (flags(&packet.flags), out.flags);
        let but_push = !(TcpFlags::PSH | TcpFlags::AE);
        let has_flags = match packet.flags.ends_with('*') {
            true => got.contains(want),
            false => got & but_push == want & but_push,
        };
        fault(!has_flags, "flags");
        let push = packet.push.or(want.contains(TcpFlags::PSH).then_some(true));
        fault(
            push.is_some_and(|push| push != got.contains(TcpFlags::PSH)),
            "push",
        );
        if let Some(from) = packet.from {
            let number = out.sequence.0.wrapping_sub(self.ours());
            fault(number != from, "number");
            fault(out.payload.length != packet.length(), "length");
        }
        if let Some(want) = packet.acknowledgement {
            let number = out.acknowledgement.0.wrapping_sub(self.theirs);
            fault(number != want, "acknowledgement");
        }
        if let Some(want) = packet.window {
            fault(self.window(out) != want, "window");
        }
        fault(
            packet.marked.is_some_and(|want| want != out.is_capable),
            "mark",
        );
        for choice in &packet.options {
            fault(!self.has(choice, &out.options), &format!("{choice:?}"));
        }
        faults
    }

    fn window(&self, out: &Outgoing) -> u32 {
        let shift = match &self.end {
            Some(end) if !out.flags.contains(TcpFlags::SYN) => end.our_shift(),
            _ => 0,
        };
        u32::from(out.window) << shift
    }

    fn has(&self, choice: &Choice, options: &Options) -> bool {
        match choice {
            Choice::Mss(size) => options.maximum_segment_size == Some(*size),
            Choice::Scale(None) => options.window_scale.is_some(),
            Choice::Scale(shift) => options.window_scale == *shift,
            Choice::SackAllowed => options.sack_permitted,
            Choice::Sack(blocks) => self.blocks(options) == *blocks,
            Choice::Time { value, echo } => options.timestamps.is_some_and(|stamps| {
                let (first, _) = self.stamps.unwrap_or_default();
                value.is_none_or(|value| value == stamps.value.wrapping_sub(first))
                    && echo.is_none_or(|echo| echo == stamps.echo)
            }),
            Choice::Without(name) => match name.as_str() {
                "mss" => options.maximum_segment_size.is_none(),
                "ws" => options.window_scale.is_none(),
                "sackok" => !options.sack_permitted,
                "sack" => options.sack.as_slice().is_empty(),
                "ts" => options.timestamps.is_none(),
                _ => false,
            },
        }
    }

    fn blocks(&self, options: &Options) -> Vec<(u32, u32)> {
        let fits = match options.timestamps {
            Some(_) => 3,
            None => 4,
        };
        let blocks = options.sack.as_slice().iter().take(fits);
        let relative = |number: TcpSequence| number.0.wrapping_sub(self.theirs);
        blocks
            .map(|block| (relative(block.left), relative(block.right)))
            .collect()
    }

    /// A segment in the language of the scripts.
    pub(super) fn tell(&self, out: &Outgoing) -> String {
        let mut text = String::from("> ");
        for (flag, letter) in FLAGS {
            if out.flags.contains(flag) {
                text.push(letter);
            }
        }
        let from = out.sequence.0.wrapping_sub(self.ours()) as i32;
        let to = from.wrapping_add(out.payload.length as i32);
        let _ = write!(text, " {from}:{to}");
        if out.flags.contains(TcpFlags::ACK) {
            let number = out.acknowledgement.0.wrapping_sub(self.theirs) as i32;
            let _ = write!(text, " ack {number}");
        }
        let _ = write!(text, " win {}", self.window(out));
        let mut options = Vec::new();
        let all = &out.options;
        options.extend(all.maximum_segment_size.map(|size| format!("mss {size}")));
        options.extend(all.window_scale.map(|shift| format!("ws {shift}")));
        options.extend(all.sack_permitted.then(|| "sackok".to_owned()));
        if let Some(stamps) = all.timestamps {
            let (first, _) = self.stamps.unwrap_or_default();
            let value = stamps.value.wrapping_sub(first) as i32;
            options.push(format!("ts {value}:{}", stamps.echo));
        }
        let blocks = self.blocks(all).into_iter();
        let blocks: Vec<String> = blocks.map(|(from, to)| format!("{from}:{to}")).collect();
        if !blocks.is_empty() {
            options.push(format!("sack {}", blocks.join(" ")));
        }
        if !options.is_empty() {
            let _ = write!(text, " <{}>", options.join(","));
        }
        if out.is_capable {
            text.push_str(" ect");
        }
        text
    }
}
