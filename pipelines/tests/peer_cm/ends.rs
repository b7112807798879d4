//! Two namespaces with a cable between them, and what two ends say.

use std::net::IpAddr;
use std::process::Command;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use warpwire_nic::{namespace, xdp};
use warpwire_pipelines::messaging::{Completed, Device, DeviceConfig, EndpointConfig, Pair, Work};
use warpwire_ring::mlx5::layout::Opcode;
use warpwire_ring::mlx5::post::{Gather, Order, Payload};

/// The namespaces; they go when this goes.
pub(crate) struct Ends {
    names: [String; 2],
    /// The client's NIC, unless it is that of the address.
    nic: Option<&'static str>,
    start: Signal,
    end: Signal,
}

/// Something that one end waits for and the other one tells.
#[derive(Default)]
struct Signal {
    is_told: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    fn tell(&self, is_told: bool) {
        *self.is_told.lock().expect("no panic") = is_told;
        self.changed.notify_all();
    }

    fn wait(&self) {
        let is_told = self.is_told.lock().expect("no panic");
        let waited = self
            .changed
            .wait_timeout_while(is_told, LIMIT, |told| !*told);
        assert!(*waited.expect("no panic").0, "the other end said nothing");
    }
}

impl Ends {
    /// Makes them, unless that is impossible here.
    pub(crate) fn set_up(label: &str) -> Option<Self> {
        if !warpwire_skip::is_root() {
            warpwire_skip::installable("network namespaces need root");
            return None;
        }
        let missing = xdp::missing_capabilities();
        if !missing.is_empty() {
            warpwire_skip::unobtainable(format!("AF_XDP needs {}", missing.join(", ")));
            return None;
        }
        let id = std::process::id();
        let names = ["a", "b"].map(|end| format!("wwcm-{label}-{id}-{end}"));
        let [a, b] = &names;
        ip(&format!("netns add {a}"));
        ip(&format!("netns add {b}"));
        let queues = "numtxqueues 1 numrxqueues 1";
        ip(&format!(
            "link add name ww netns {a} {queues} type veth peer name ww netns {b} {queues}"
        ));
        for (name, last) in [(a, 1), (b, 2)] {
            ip(&format!("-n {name} address add 10.78.0.{last}/24 dev ww"));
            ip(&format!(
                "-n {name} address add fd78::{last}/64 dev ww nodad"
            ));
            ip(&format!("-n {name} link set dev ww up"));
        }
        Some(Self {
            names,
            nic: None,
            start: Signal::default(),
            end: Signal::default(),
        })
    }

    /// The same, with another NIC of the client.
    pub(crate) fn over(mut self, nic: &'static str) -> Self {
        self.nic = Some(nic);
        self
    }

    /// Runs a client and a server, each on the device with its address. The client begins when the
    /// server says that it listens, and the server ends no earlier than the client.
    pub(crate) fn run(
        &self,
        (client, ask): (&str, impl FnOnce(&Device) + Send),
        (server, answer): (&str, impl FnOnce(&Device) + Send),
    ) {
        let [a, b] = &self.names;
        self.start.tell(false);
        self.end.tell(false);
        std::thread::scope(|scope| {
            let client = scope.spawn(|| {
                namespace::within(a, || {
                    let device = open(client, self.nic);
                    self.start.wait();
                    ask(&device);
                    self.end.tell(true);
                })
            });
            let server = scope.spawn(|| {
                namespace::within(b, || {
                    let device = open(server, None);
                    answer(&device);
                })
            });
            for end in [client, server] {
                match end.join() {
                    Ok(entered) => entered.expect("the namespace is there"),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
    }

    /// Of the server: the client may begin.
    pub(crate) fn is_listening(&self) {
        self.start.tell(true);
    }

    /// Of the server: waits until the client has ended.
    pub(crate) fn is_over(&self) {
        self.end.wait();
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        for name in &self.names {
            // What is left is the next run's to find; nobody is there to be told.
            let _ = Command::new("ip").args(["netns", "delete", name]).status();
        }
    }
}

fn ip(words: &str) {
    let done = Command::new("ip").args(words.split_whitespace()).output();
    let done = done.expect("ip can be run");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "ip {words}: {said}");
}

fn open(address: &str, nic: Option<&str>) -> Device {
    let config = DeviceConfig {
        nic: nic.map(str::to_owned),
        bytes: 65536,
        memory: Vec::new(),
        endpoint: EndpointConfig {
            pairs: 8,
            management: true,
            log_send: 4,
            log_receive: 4,
            ..EndpointConfig::default()
        },
        patience: Duration::from_secs(10),
        chance: 0x1234,
        fused: false,
        capture: None,
    };
    let own: IpAddr = address.parse().expect("is one");
    Device::at(Some(own), &config).unwrap_or_else(|error| panic!("{address}: {error}"))
}

/// Posts a receive.
pub(crate) fn post(pair: &mut Pair, device: &Device) {
    pair.receive(&[piece(device, 4096)]).expect("is posted");
}

/// Sends a number and waits until it was taken.
pub(crate) fn say(pair: &mut Pair, device: &Device, number: u32) {
    device.write(0, &number.to_be_bytes()).expect("inside");
    let piece = [piece(device, 0)];
    let (order, payload) = (Order::new(Opcode::SEND), Payload::Pieces(&piece));
    pair.post(&[Work { order, payload }]).expect("is posted");
    let completed = pair.wait(Duration::from_secs(20)).expect("completes");
    assert!(matches!(completed, Completed::Sent { .. }), "{completed:?}");
}

/// Waits for a number.
pub(crate) fn hear(pair: &mut Pair, device: &Device) -> u32 {
    let completed = pair.wait(Duration::from_secs(20)).expect("completes");
    assert!(matches!(completed, Completed::Received(_)), "{completed:?}");
    let mut bytes = [0; 4];
    device.read(4096, &mut bytes).expect("inside");
    u32::from_be_bytes(bytes)
}

fn piece(device: &Device, at: u64) -> Gather {
    let region = device.region();
    Gather {
        address: region.address + at,
        length: 4,
        key: region.key,
    }
}

const LIMIT: Duration = Duration::from_secs(120);

/// Memory that the process holds.
pub(crate) fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|word| word.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}
