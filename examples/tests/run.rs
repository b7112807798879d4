//! Every example runs, ends by itself, and says what it did.

use std::process::Command;

fn check(program: &str, name: &str) {
    let output = Command::new(program).output().expect("starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {complained}");
    assert!(said.starts_with(&format!("{name}: ")), "{said}");
    println!("{said}");
}

#[test]
fn message_ping() {
    check(env!("CARGO_BIN_EXE_message-ping"), "message-ping");
}

#[test]
fn put_with_signal() {
    check(env!("CARGO_BIN_EXE_put-with-signal"), "put-with-signal");
}

#[test]
fn ring_all_reduce() {
    check(env!("CARGO_BIN_EXE_ring-all-reduce"), "ring-all-reduce");
}

#[test]
fn key_value_get() {
    check(env!("CARGO_BIN_EXE_key-value-get"), "key-value-get");
}

#[test]
fn stream_transfer() {
    check(env!("CARGO_BIN_EXE_stream-transfer"), "stream-transfer");
}

#[test]
fn stream_tokio() {
    check(env!("CARGO_BIN_EXE_stream-tokio"), "stream-tokio");
}
