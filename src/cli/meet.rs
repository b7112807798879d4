//! Where two ends of a measurement meet by TCP.

use std::time::Duration;

use warpwire_pipelines::connect::perftest::Role;
use warpwire_pipelines::connect::{Channel, Conversation, Error, Listener};

use super::Failure;
use super::signals::Heed;

/// Dials the server, or waits for a client until there is one or a signal asks for an end. Later
/// steps have `patience`.
pub(super) fn meet(
    host: Option<&str>,
    port: u16,
    patience: Duration,
) -> Result<(Conversation, Role), Failure> {
    if let Some(host) = host {
        // The brackets of an IPv6 address, as with its port behind.
        let address = match host.contains(':') && !host.starts_with('[') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        };
        let conversation = match Conversation::dial(&address, patience.min(SOON)) {
            Err(Error::Unreachable { .. }) if patience > SOON => {
                let seconds = patience.as_secs();
                eprintln!("nobody listens at {address} yet: asking for {seconds} s");
                Conversation::dial(&address, patience)?
            }
            outcome => {
                let mut conversation = outcome?;
                conversation.extend(patience);
                conversation
            }
        };
        return Ok((conversation, Role::Client));
    }
    let heed = Heed::begin()?;
    let listener = Listener::bind(&format!("[::]:{port}")).map_err(|error| {
        Failure::Words(format!(
            "-p {port}: {error}; end who listens there, or write another port at both ends"
        ))
    })?;
    eprintln!("waiting for a client at TCP port {port}");
    while !heed.is_stopped() {
        match listener.accept(LOOK, patience) {
            Ok(conversation) => {
                heed.end();
                return Ok((conversation, Role::Server));
            }
            Err(Error::NoClient { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Failure::Interrupted)
}

/// When a client says that it is still asking.
const SOON: Duration = Duration::from_secs(1);
/// How often a waiting server looks whether it is to end.
const LOOK: Duration = Duration::from_millis(200);
