//! Where two ends of a measurement meet by TCP.

use std::time::Duration;

use warpwire_pipelines::connect::perftest::Role;
use warpwire_pipelines::connect::{Conversation, Error, Listener};

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
        return Ok((Conversation::dial(&address, patience)?, Role::Client));
    }
    let heed = Heed::begin()?;
    let listener = Listener::bind(&format!("[::]:{port}"))?;
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
    Err(interrupted())
}

/// A server was ended while it waited.
pub(super) fn interrupted() -> Failure {
    Failure::Bench("interrupted before a client came".to_owned())
}

/// How often a waiting server looks whether it is to end.
const LOOK: Duration = Duration::from_millis(200);
