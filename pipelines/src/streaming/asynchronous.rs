//! Streams for tasks of tokio: a thread steps the engine, and wakes those of whom it has news.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker, ready};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::endpoint::{News, StreamEndpoint, lock};
use super::error::Error;
use super::listener::Listener;
use super::stream::Stream;

/// What a reactor steps: an endpoint, or a device that has one.
type Stepped = dyn AsRef<StreamEndpoint> + Send + Sync;

/// A thread that steps an endpoint and wakes tasks. Dropping it ends the thread; tasks that wait
/// then are not woken any more.
///
/// ```no_run
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
/// use warpwire_pipelines::streaming::{Reactor, StreamConfig, StreamDevice};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let config = StreamConfig::new(vec!["192.0.2.9/24".parse()?]);
/// let patience = Duration::from_secs(10);
/// let device = StreamDevice::open("xdp:eth1", &config, patience)?;
/// let reactor = Reactor::start(Arc::new(device))?;
/// let mut listener = reactor.listen("192.0.2.9:7".parse()?, patience)?;
/// let mut stream = listener.accept().await?;
/// let mut question = [0; 64];
/// stream.read_exact(&mut question).await?;
/// stream.write_all(&question).await?;
/// let mut other = reactor.connect("192.0.2.1:7".parse()?, patience).await?;
/// other.write_all(&question).await?;
/// # Ok(())
/// # }
/// ```
pub struct Reactor {
    endpoint: Arc<Stepped>,
    wakers: Arc<Wakers>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A stream for tasks; dropping it closes it, as with [`Stream`].
pub struct AsyncStream {
    stream: Stream,
    wakers: Arc<Wakers>,
}

/// A listener for tasks.
pub struct AsyncListener {
    listener: Listener,
    wakers: Arc<Wakers>,
}

/// Who waits for news of which number: to read or accept, and to write.
#[derive(Default)]
struct Wakers(Mutex<Vec<[Option<Waker>; 2]>>);

/// Places in a row of [`Wakers`].
const READS: usize = 0;
const WRITES: usize = 1;

impl Reactor {
    /// Starts the thread for an endpoint, or for a [`StreamDevice`](super::StreamDevice). There is
    /// one for an endpoint.
    ///
    /// # Errors
    /// [`Error::Setting`] if somebody has the endpoint's news already; a thread that cannot be
    /// started.
    pub fn start<E>(endpoint: Arc<E>) -> Result<Self, Error>
    where
        E: AsRef<StreamEndpoint> + Send + Sync + 'static,
    {
        let endpoint: Arc<Stepped> = endpoint;
        let news = (*endpoint).as_ref().news().ok_or(Error::Setting {
            field: "reactor",
            value: 1,
            must: "the only one who takes the endpoint's news",
        })?;
        let (wakers, stop) = (Arc::<Wakers>::default(), Arc::<AtomicBool>::default());
        let thread = {
            let (wakers, stop) = (Arc::clone(&wakers), Arc::clone(&stop));
            let endpoint = Arc::clone(&endpoint);
            let run = move || turn((*endpoint).as_ref(), &news, &wakers, &stop);
            let named = std::thread::Builder::new().name("streams".to_owned());
            named
                .spawn(run)
                .map_err(|source| Error::Thread { source })?
        };
        Ok(Self {
            endpoint,
            wakers,
            stop,
            thread: Some(thread),
        })
    }

    /// The endpoint that it steps.
    pub fn endpoint(&self) -> &StreamEndpoint {
        (*self.endpoint).as_ref()
    }

    /// Listens at a port of an own address, or of all of a version. The engine alone is waited for,
    /// and `patience` bounds that.
    ///
    /// # Errors
    /// As [`StreamEndpoint::listen`].
    pub fn listen(&self, at: SocketAddr, patience: Duration) -> Result<AsyncListener, Error> {
        let listener = self.endpoint().listen(at, patience)?;
        Ok(self.listener(listener))
    }

    /// Opens a connection. A thread of its own waits until the peer answers; it does so to the end
    /// of `patience` at most, also where the future is dropped before: then the connection goes.
    ///
    /// # Errors
    /// As [`StreamEndpoint::connect`]; a thread that cannot be started.
    pub async fn connect(&self, to: SocketAddr, patience: Duration) -> Result<AsyncStream, Error> {
        let (answer, outcome) = tokio::sync::oneshot::channel();
        let endpoint = Arc::clone(&self.endpoint);
        let run = move || {
            // Whoever does not wait any more wants no connection.
            let _ = answer.send((*endpoint).as_ref().connect(to, patience));
        };
        let named = std::thread::Builder::new().name("connect".to_owned());
        named
            .spawn(run)
            .map_err(|source| Error::Thread { source })?;
        let connected = outcome.await.map_err(|_| Error::Thread {
            source: io::Error::other("the thread that connects ended"),
        })?;
        Ok(self.stream(connected?))
    }

    /// A stream for tasks. It has to be one of the reactor's endpoint.
    pub fn stream(&self, stream: Stream) -> AsyncStream {
        AsyncStream {
            stream,
            wakers: Arc::clone(&self.wakers),
        }
    }

    /// A listener for tasks. It has to be one of the reactor's endpoint.
    pub fn listener(&self, listener: Listener) -> AsyncListener {
        AsyncListener {
            listener,
            wakers: Arc::clone(&self.wakers),
        }
    }
}

impl Drop for Reactor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // If it panicked, that was told.
            let _ = thread.join();
        }
    }
}

impl AsyncListener {
    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Waits for a connection.
    ///
    /// # Errors
    /// [`Error::Memory`], [`Error::Ended`].
    pub async fn accept(&mut self) -> Result<AsyncStream, Error> {
        std::future::poll_fn(|context| self.poll_accept(context)).await
    }

    fn poll_accept(&mut self, context: &mut Context<'_>) -> Poll<Result<AsyncStream, Error>> {
        let number = self.listener.number();
        // Before the look: what changes after it wakes.
        self.wakers.register(number, READS, context.waker());
        let Some(stream) = self.listener.try_accept()? else {
            self.listener.check_running()?;
            return Poll::Pending;
        };
        let wakers = Arc::clone(&self.wakers);
        Poll::Ready(Ok(AsyncStream { stream, wakers }))
    }
}

impl AsyncStream {
    /// The stream itself.
    pub const fn stream(&self) -> &Stream {
        &self.stream
    }

    /// There is nothing yet. Nothing will be where the engine ended.
    fn pending<T>(&self) -> Poll<io::Result<T>> {
        self.stream.shared.check_running()?;
        Poll::Pending
    }

    fn register(&self, side: usize, context: &Context<'_>) {
        // Before the look: what changes after it wakes.
        let number = self.stream.number();
        self.wakers.register(number, side, context.waker());
    }
}

impl AsyncRead for AsyncStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.register(READS, context);
        let is_at_end = this.stream.is_at_end()?;
        let mut count = 0;
        for piece in this.stream.peek()? {
            let here = piece.len().min(into.remaining());
            into.put_slice(piece.get(..here).unwrap_or_default());
            count += here;
        }
        this.stream.consume(count)?;
        match count > 0 || is_at_end || into.remaining() == 0 {
            true => Poll::Ready(Ok(())),
            false => this.pending(),
        }
    }
}

impl AsyncWrite for AsyncStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.register(WRITES, context);
        match this.stream.write(bytes)? {
            0 if !bytes.is_empty() => this.pending(),
            count => Poll::Ready(Ok(count)),
        }
    }

    /// Waits until the peer acknowledged all that was written.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.register(WRITES, context);
        match this.stream.is_flushed()? {
            true => Poll::Ready(Ok(())),
            false => this.pending(),
        }
    }

    /// Closes this direction, when the peer acknowledged all that was written.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.as_mut().poll_flush(context))?;
        Poll::Ready(Ok(self.get_mut().stream.close()?))
    }
}

impl Wakers {
    fn register(&self, number: u32, side: usize, waker: &Waker) {
        let mut rows = lock(&self.0);
        let number = number as usize;
        if number >= rows.len() {
            rows.resize_with(number + 1, Default::default);
        }
        if let Some(slot) = rows.get_mut(number).and_then(|row| row.get_mut(side)) {
            match slot {
                Some(old) => old.clone_from(waker),
                None => *slot = Some(waker.clone()),
            }
        }
    }

    /// Wakes who waits for news of a number.
    fn wake(&self, number: u32) {
        let row = lock(&self.0).get_mut(number as usize).map(std::mem::take);
        row.into_iter().flatten().flatten().for_each(Waker::wake);
    }

    /// Wakes everybody, to see that the engine ended.
    fn wake_all(&self) {
        let rows = std::mem::take(&mut *lock(&self.0));
        rows.into_iter().flatten().flatten().for_each(Waker::wake);
    }
}

/// What the thread does.
fn turn(endpoint: &StreamEndpoint, news: &News, wakers: &Wakers, stop: &AtomicBool) {
    let mut idle = 0u32;
    while !stop.load(Ordering::Relaxed) {
        let busy = endpoint.step() | news.drain(|number| wakers.wake(number));
        if !endpoint.is_running() {
            wakers.wake_all();
        }
        idle = if busy { 0 } else { idle.saturating_add(1) };
        match idle {
            0..64 => std::hint::spin_loop(),
            64..256 => std::thread::yield_now(),
            _ => std::thread::sleep(NAP),
        }
    }
    wakers.wake_all();
}

/// A short rest of a thread that finds nothing to do.
const NAP: Duration = Duration::from_micros(50);

#[cfg(test)]
#[path = "asynchronous_tests.rs"]
mod tests;
