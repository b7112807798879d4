//! Programs with a deadline, whose output is kept.

use crate::Error;
use std::cell::Cell;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What to show of a program's output while it runs. All of it is kept in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// Nothing.
    Nothing,
    /// Lines that say that a test was skipped.
    Skips,
    /// Standard error, as it comes.
    Errors,
    /// Everything, as it comes.
    All,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself.
    Exit(ExitStatus),
    /// It was stopped, with all that it had started, at its deadline.
    Deadline,
    /// It was stopped so because the flag of [`heed`] was raised.
    Interrupted,
}

/// A program's output and end.
#[derive(Debug)]
pub struct Outcome {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// How it ended.
    pub end: End,
    /// Wall-clock time.
    pub took: Duration,
}

impl Outcome {
    /// Whether it ended by itself with status 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        matches!(self.end, End::Exit(status) if status.success())
    }

    /// The end in words.
    #[must_use]
    pub fn end_in_words(&self) -> String {
        match self.end {
            End::Exit(status) => status.to_string(),
            End::Deadline => format!("stopped at its deadline of {} s", self.took.as_secs()),
            End::Interrupted => "interrupted".to_owned(),
        }
    }
}

/// Stops programs that are waited for as soon as this flag is raised, as by a signal. The first
/// flag of a process stays.
pub fn heed(flag: Arc<AtomicBool>) {
    let _ = FLAG.set(flag);
}

static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Does work whose programs this thread waits for in spite of the flag of [`heed`]: what an
/// interruption leaves to be cleared away.
pub fn undisturbed<T>(work: impl FnOnce() -> T) -> T {
    let before = UNDISTURBED.replace(true);
    let outcome = work();
    UNDISTURBED.set(before);
    outcome
}

thread_local! {
    static UNDISTURBED: Cell<bool> = const { Cell::new(false) };
}

fn interrupted() -> bool {
    let is_raised = FLAG.get().is_some_and(|flag| flag.load(Ordering::Relaxed));
    is_raised && !UNDISTURBED.get()
}

/// Runs a program without standard input until it ends, or until `limit` has passed.
///
/// # Errors
/// When it cannot be started; a bad end is an [`Outcome`].
pub fn run(command: &mut Command, limit: Duration, show: Show) -> Result<Outcome, Error> {
    Running::start(command, show)?.wait(limit)
}

/// A program in the background. It does not outlive its owner.
#[derive(Debug)]
pub struct Running {
    child: Child,
    words: String,
    stdout: Option<Reader>,
    stderr: Option<Reader>,
    start: Instant,
}

impl Running {
    /// Starts a program without standard input.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(command: &mut Command, show: Show) -> Result<Self, Error> {
        Self::spawn(command.stdin(Stdio::null()), show)
    }

    /// Starts a program that takes commands, see [`Running::say`].
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn converse(command: &mut Command) -> Result<Self, Error> {
        Self::spawn(command.stdin(Stdio::piped()), Show::Nothing)
    }

    fn spawn(command: &mut Command, show: Show) -> Result<Self, Error> {
        let start = Instant::now();
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| Error::Start {
                program: command.get_program().to_string_lossy().into_owned(),
                source,
                cure: "is it installed and on PATH?",
            })?;
        let stdout = child.stdout.take().map(|pipe| {
            Reader::start(pipe, move |line| {
                if show == Show::All {
                    print!("{line}");
                }
            })
        });
        let stderr = child.stderr.take().map(|pipe| {
            Reader::start(pipe, move |line| {
                if matches!(show, Show::All | Show::Errors)
                    || (show == Show::Skips && line.starts_with(SKIPPED))
                {
                    let _ = std::io::stderr().write_all(line.as_bytes());
                }
            })
        });
        Ok(Self {
            child,
            words: in_words(command),
            stdout,
            stderr,
            start,
        })
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it ends; stops it when `limit` has passed.
    ///
    /// # Errors
    /// When the system cannot tell whether it has ended.
    pub fn wait(mut self, limit: Duration) -> Result<Outcome, Error> {
        let end = wait(&mut self.child, Instant::now() + limit)?;
        let took = self.start.elapsed();
        Ok(Outcome {
            stdout: self.stdout.take().map(Reader::finish).unwrap_or_default(),
            stderr: self.stderr.take().map(Reader::finish).unwrap_or_default(),
            end,
            took,
        })
    }

    /// Ends it as Ctrl-C would, and waits as [`Running::wait`] does.
    ///
    /// # Errors
    /// As [`Running::wait`].
    pub fn interrupt(self, limit: Duration) -> Result<Outcome, Error> {
        signal("-INT", &[self.child.id()]);
        self.wait(limit)
    }

    /// Waits until its output satisfies `ready`, which sees all that it wrote so far.
    ///
    /// # Errors
    /// When it ends before that, or `limit` passes; both carry the output.
    pub fn wait_until(
        &mut self,
        limit: Duration,
        mut ready: impl FnMut(&str, &str) -> bool,
    ) -> Result<(), Error> {
        let deadline = Instant::now() + limit;
        let so_far = |reader: &Option<Reader>| reader.as_ref().map(Reader::so_far);
        loop {
            let ended = self.child.try_wait().ok().flatten();
            let stdout = so_far(&self.stdout).unwrap_or_default();
            let stderr = so_far(&self.stderr).unwrap_or_default();
            if ready(&stdout, &stderr) {
                return Ok(());
            }
            let late = Instant::now() >= deadline;
            let status = match ended {
                Some(status) => format!("ended early, {status}"),
                None if interrupted() => "interrupted".to_owned(),
                None if late => format!("not ready after {} s", limit.as_secs()),
                None => {
                    std::thread::sleep(POLL);
                    continue;
                }
            };
            return Err(Error::Failed {
                program: self.words.clone(),
                status,
                output: format!("{stdout}{stderr}"),
            });
        }
    }

    /// Writes a line to its standard input. One that has ended does not hear it.
    pub fn say(&mut self, line: &str) {
        if let Some(input) = &mut self.child.stdin {
            let _ = writeln!(input, "{line}");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            stop(&mut self.child);
        }
    }
}

/// As [`run`], and a bad end is an error that carries the output.
pub fn run_well(command: &mut Command, limit: Duration, show: Show) -> Result<Outcome, Error> {
    let outcome = run(command, limit, show)?;
    if outcome.is_success() {
        return Ok(outcome);
    }
    Err(Error::Failed {
        program: in_words(command),
        status: outcome.end_in_words(),
        output: format!("{}{}", outcome.stdout, outcome.stderr),
    })
}

/// A command as one would type it.
#[must_use]
pub fn in_words(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Copies a program, also over a copy that is running.
pub fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    static COPIES: AtomicU32 = AtomicU32::new(0);
    let number = COPIES.fetch_add(1, Ordering::Relaxed);
    let fresh = to.with_extension(format!("{}-{number}", std::process::id()));
    if let Some(folder) = to.parent() {
        std::fs::create_dir_all(folder).map_err(|source| Error::file(folder, source))?;
    }
    std::fs::copy(from, &fresh).map_err(|source| Error::file(&fresh, source))?;
    std::fs::rename(&fresh, to).map_err(|source| Error::file(to, source))
}

/// The program that is running, also when a build has replaced its file.
#[must_use]
pub fn own() -> &'static Path {
    Path::new("/proc/self/exe")
}

/// Gathers a stream on a thread of its own, so that no program waits for us.
#[derive(Debug)]
struct Reader {
    text: Arc<Mutex<String>>,
    thread: JoinHandle<()>,
}

impl Reader {
    fn start(pipe: impl Read + Send + 'static, each: impl Fn(&str) + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(String::new()));
        let all = Arc::clone(&text);
        let thread = std::thread::spawn(move || {
            let mut reader = BufReader::new(pipe);
            let mut line = Vec::new();
            // A read error ends the stream as its end does: the exit status tells the rest.
            while reader
                .read_until(b'\n', &mut line)
                .is_ok_and(|count| count > 0)
            {
                let text = String::from_utf8_lossy(&line);
                each(&text);
                lock(&all).push_str(&text);
                line.clear();
            }
        });
        Self { text, thread }
    }

    fn so_far(&self) -> String {
        lock(&self.text).clone()
    }

    fn finish(self) -> String {
        // A panic of the thread leaves what it had gathered.
        let _ = self.thread.join();
        std::mem::take(&mut *lock(&self.text))
    }
}

fn lock(text: &Mutex<String>) -> MutexGuard<'_, String> {
    text.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait(child: &mut Child, deadline: Instant) -> Result<End, Error> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(End::Exit(status)),
            Ok(None) if interrupted() => {
                stop(child);
                return Ok(End::Interrupted);
            }
            Ok(None) if Instant::now() >= deadline => {
                stop(child);
                return Ok(End::Deadline);
            }
            Ok(None) => std::thread::sleep(POLL),
            Err(source) => return Err(Error::file("wait", source)),
        }
    }
}

/// Kills a program and all that it started: a test binary that cargo started outlives cargo.
fn stop(child: &mut Child) {
    let family = descendants(child.id());
    let _ = child.kill();
    signal("-KILL", &family);
    let _ = child.wait();
}

/// Sends a signal to processes by their ids.
pub fn signal(name: &str, ids: &[u32]) {
    if ids.is_empty() {
        return;
    }
    // Failure means that they have ended already.
    let _ = Command::new("kill")
        .arg(name)
        .args(ids.iter().map(u32::to_string))
        .stderr(Stdio::null())
        .status();
}

/// Process ids of all descendants, read from /proc.
fn descendants(ancestor: u32) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pairs: Vec<(u32, u32)> = entries
        .flatten()
        .filter_map(|entry| {
            let id = entry.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            // The second field is a name in parentheses and may hold spaces.
            let parent = stat
                .rsplit_once(')')?
                .1
                .split_whitespace()
                .nth(1)?
                .parse()
                .ok()?;
            Some((id, parent))
        })
        .collect();
    let mut family = vec![ancestor];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        let children = pairs
            .iter()
            .filter(|(_, of)| *of == parent)
            .map(|(id, _)| *id);
        family.extend(children);
        next += 1;
    }
    family.remove(0);
    family
}

/// Whether the effective user is root.
#[must_use]
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// How a line that announces a skipped test begins.
pub const SKIPPED: &str = "SKIPPED ";
const POLL: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit_ms: u64) -> Outcome {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run(&mut command, Duration::from_millis(limit_ms), Show::Nothing).unwrap()
    }

    #[test]
    fn output_and_status_are_kept() {
        let outcome = shell("echo out; echo err >&2; exit 3", 10_000);
        assert_eq!(
            (outcome.stdout.as_str(), outcome.stderr.as_str()),
            ("out\n", "err\n")
        );
        assert!(!outcome.is_success());
    }

    #[test]
    fn the_deadline_ends_a_program_and_its_children() {
        let outcome = shell("echo before; sh -c 'sleep 600; true'; true", 200);
        assert_eq!(outcome.end, End::Deadline);
        // Reading to the end proves that the grandchildren, who hold the pipe, are gone too.
        assert_eq!(outcome.stdout, "before\n");
        assert!(outcome.took < Duration::from_secs(60));
    }

    #[test]
    fn a_program_in_the_background_is_waited_for_and_interrupted() {
        let script = "trap 'echo bye; exit 0' INT; echo ready; while :; do sleep 0.02; done";
        // Who runs the tests in the background has told their family to ignore interrupts, and a
        // shell cannot trap what it was started to ignore.
        let mut command = Command::new("env");
        command.args(["--default-signal=INT", "sh", "-c", script]);
        let mut running = Running::start(&mut command, Show::Nothing).unwrap();
        let limit = Duration::from_secs(60);
        running
            .wait_until(limit, |stdout, _| stdout.contains("ready"))
            .unwrap();
        let outcome = running.interrupt(limit).unwrap();
        assert!(outcome.is_success());
        assert_eq!(outcome.stdout, "ready\nbye\n");
    }

    #[test]
    fn waiting_for_words_that_never_come_ends_with_the_program() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo something else; exit 4"]);
        let mut running = Running::start(&mut command, Show::Nothing).unwrap();
        let error = running
            .wait_until(Duration::from_secs(60), |stdout, _| {
                stdout.contains("ready")
            })
            .unwrap_err();
        let words = error.to_string();
        assert!(
            words.contains("ended early") && words.contains("something else"),
            "{words}"
        );
    }

    #[test]
    fn a_missing_program_is_named() {
        let mut command = Command::new("no-such-program-anywhere");
        let error = run(&mut command, Duration::from_secs(1), Show::Nothing).unwrap_err();
        assert!(error.to_string().contains("no-such-program-anywhere"));
    }
}
