//! Streams of an endpoint that device code uses: the same code, whatever carries them.
#![expect(
    unsafe_code,
    reason = "device code attaches to the table of an endpoint, which is kept meanwhile"
)]

use std::time::{Duration, Instant};

use warpwire_core::messaging::Progress;
use warpwire_core::streaming::{Ended, Table};
use warpwire_device::{Scalar, Simt, Wait};
use warpwire_gpu::executor::Clock;
use warpwire_nic::soft::Impairments;
use warpwire_ring::Cause as Failure;

use super::driver::Thread;
use super::scene::{By, LIMIT, Scene, Sizes, text};
use super::*;

/// Who waits steps the endpoint.
struct Stepping<'a>(&'a StreamEndpoint);

impl Progress for Stepping<'_> {
    fn progress<S: Simt>(&mut self, _simt: &S) -> Result<bool, Failure> {
        Ok(self.0.step())
    }
}

#[test]
fn device_code_serves_what_the_host_opens() {
    for by in [By::Tcp, By::Fused, By::Kernel, By::Nic] {
        let scene = Scene::of(by, Impairments::default(), &Sizes::default());
        let listener = scene.listen();
        let to = listener.address();
        let sent = text(300_000);
        scene.run(
            |end| {
                let mut stream = end.connect(to, LIMIT).expect("connects");
                let (mut rest, mut back) = (&sent[..], Vec::<u8>::new());
                let mut bytes = vec![0; 10_000];
                while !rest.is_empty() {
                    rest = &rest[stream.write(rest).expect("is open")..];
                    match stream.read(&mut bytes, Duration::from_millis(1)) {
                        Ok(count) => back.extend(&bytes[..count]),
                        Err(Error::Deadline { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
                stream.close().expect("closes");
                while let count @ 1.. = stream.read(&mut bytes, LIMIT).expect("goes on") {
                    back.extend(&bytes[..count]);
                }
                assert!(back == sent, "{by:?}: {} bytes", back.len());
            },
            |end| echo(end, by),
        );
        drop(listener);
    }
}

/// Sends back what comes over the first stream that is accepted.
fn echo(end: &StreamEndpoint, by: By) {
    let host = Thread(Clock::machine());
    let simt = Scalar::new(&host);
    assert!(end.table(1).is_none(), "there is one");
    let (block, _memory) = end.table(0).expect("is one");
    // SAFETY: the endpoint's table, which lives as long as the endpoint; the host uses none of its
    // streams meanwhile.
    let table = unsafe { Table::attach(block) }.expect("is one");
    let wait = Wait::within(&simt, LIMIT.as_nanos() as u64);
    let mut progress = Stepping(end);
    let name = table.wait_accept(&simt, 0, &wait, &mut progress);
    let mut stream = table.stream(&simt, name.expect("comes")).expect("is there");
    let mut total = 0;
    loop {
        let came = stream.wait_readable(&simt, 1, &wait, &mut progress);
        if came.expect("goes on") == 0 {
            break;
        }
        let room = stream.wait_writable(&simt, 1, &wait, &mut progress);
        room.expect("goes on");
        total += stream.reflect(&simt, u32::MAX);
        stream.ring(&simt);
    }
    assert_eq!(total, 300_000, "{by:?}");
    stream.close(&simt);
    let until = Instant::now() + LIMIT;
    while !stream.is_over() && Instant::now() < until {
        end.step();
        stream.look(&simt);
    }
    // It closed second: nothing lingers here.
    assert_eq!(stream.ended(&simt), Some(Ended::Finished), "{by:?}");
    stream.release(&simt);
}
