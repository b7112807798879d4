//! Linux's TCP, by plain sockets that block: as a caller, and as a server.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use super::super::error::Error;
use super::super::row::Sample;
use super::super::setting::Setting;
use super::count::{self, Task};
use super::{QUESTION, What};

/// Calls a server, and measures what the calling thread and the server do.
pub(super) fn call(
    setting: &Setting,
    to: SocketAddr,
    what: What,
    tasks: &[Task],
) -> Result<Sample, Error> {
    let mut bytes = vec![7; PIECE];
    match what {
        What::Greet => {
            let greeted = count::count(setting, tasks, || greet(to).map_err(failed))?;
            Ok(count::thousands(greeted))
        }
        What::Send => {
            let mut stream = connect(to).map_err(failed)?;
            let came = count::count(setting, tasks, || {
                let count = stream.read(&mut bytes).map_err(failed)?;
                Ok(count as u64)
            })?;
            Ok(count::goodput(came))
        }
        What::Receive => {
            let mut stream = connect(to).map_err(failed)?;
            let left = count::count(setting, tasks, || {
                let count = stream.write(&bytes).map_err(failed)?;
                Ok(count as u64)
            })?;
            Ok(count::goodput(left))
        }
        What::Ask => {
            let mut stream = connect(to).map_err(failed)?;
            let mut answer = [0; QUESTION];
            count::times(setting, || {
                stream.write_all(&[7; QUESTION]).map_err(failed)?;
                stream.read_exact(&mut answer).map_err(failed)
            })
        }
    }
}

/// Serves one connection after the other until it is over and somebody connects.
pub(super) fn serve(
    at: SocketAddr,
    what: What,
    ready: &SyncSender<Task>,
    over: &AtomicBool,
) -> Result<(), Error> {
    let listener = TcpListener::bind(at).map_err(failed)?;
    // Nobody listens any more where the other side gave up.
    let _ = ready.send(Task::own());
    loop {
        let (stream, _) = listener.accept().map_err(failed)?;
        if over.load(Ordering::Relaxed) {
            return Ok(());
        }
        // One that breaks is how a caller ends who has seen enough.
        let _ = serve_one(stream, what);
    }
}

fn serve_one(mut stream: TcpStream, what: What) -> io::Result<()> {
    prepare(&stream)?;
    let mut bytes = vec![7; PIECE];
    loop {
        match what {
            What::Send => stream.write_all(&bytes)?,
            What::Ask => {
                let count = stream.read(&mut bytes)?;
                if count == 0 {
                    return Ok(());
                }
                stream.write_all(bytes.get(..count).unwrap_or_default())?;
            }
            What::Receive | What::Greet => {
                if stream.read(&mut bytes)? == 0 {
                    return Ok(());
                }
            }
        }
    }
}

fn greet(to: SocketAddr) -> io::Result<u64> {
    let mut stream = connect(to)?;
    stream.shutdown(Shutdown::Write)?;
    match stream.read(&mut [0])? {
        0 => Ok(1),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn connect(to: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, PATIENCE)?;
    prepare(&stream)?;
    Ok(stream)
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))
}

fn failed(source: io::Error) -> Error {
    Error::System {
        action: "a connection of Linux".to_owned(),
        source,
        cure: "try --rows with this row alone",
    }
}

/// Bytes that are read and written at a time.
const PIECE: usize = 128 << 10;
/// How long a call of a socket may take.
const PATIENCE: Duration = Duration::from_secs(5);
