//! From what two ends agreed on to what a queue pair is connected with.

use warpwire_protocols::rdma::{Attributes, Mtu, Service, Start};

use super::own::{self, Agreement, Feature};

impl Agreement {
    /// What queue pair `place` of ours is connected with, counted from the first one offered, and
    /// the sequence numbers that it starts from; `None` if there are not as many.
    ///
    /// What no offer speaks of is as in [`Attributes::default`]: timers, repetitions, the window.
    pub fn attributes(&self, place: usize) -> Option<(Attributes, Start)> {
        let (agreed, theirs) = (&self.agreed, self.theirs.queue_pairs.get(place)?);
        let own = agreed.queue_pairs.get(place)?;
        let fits = |mtu: &Mtu| mtu.bytes() <= u32::from(agreed.mtu);
        let service = match agreed.service {
            own::Service::Rc => Service::Rc,
            own::Service::Uc => Service::Uc,
            own::Service::Ud => Service::Ud,
        };
        let attributes = Attributes {
            service,
            mtu: Mtu::ALL.into_iter().rev().find(fits)?,
            reads: agreed.reads,
            reads_served: agreed.reads_served,
            pkey: agreed.pkey,
            local_qp: own.qp,
            remote_qp: theirs.qp,
            max_message: agreed.max_message,
            // Reliable connections alone repeat anything.
            selective: service == Service::Rc && agreed.features.contains(&Feature::Selective),
            ..Attributes::default()
        };
        let start = Start {
            send: own.psn,
            receive: theirs.psn,
        };
        Some((attributes, start))
    }
}
