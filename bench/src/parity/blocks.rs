//! Wrong parameter blocks: a kernel ends at once, and touches nothing.

use warpwire_core::block::{Header, Parameters};
use warpwire_device::KernelRow;
use warpwire_ring::{Cause, DeviceAddress};

use crate::machine::Ready;
use crate::stage::Stage;

/// What makes a parameter block wrong.
pub(super) type Wrong<P> = (&'static str, fn(&mut P));

/// Gives a kernel wrong blocks: those that are wrong for every kernel, `header` being the block's
/// own, and the kernel's own.
pub(super) fn refuse<P: Parameters>(
    ready: &Ready,
    row: &KernelRow,
    stage: &Stage,
    valid: P,
    header: fn(&mut P) -> &mut Header,
    own: &[Wrong<P>],
) -> Result<(), String> {
    let check = |what: &str, block: DeviceAddress| {
        let before = stage.image();
        let code = ready.run(stage.job::<P>(row, block));
        let code = code.map_err(|error| format!("parameter block with {what}: {error}"))?;
        let refused = code.is_none_or(|code| code == Cause::LayoutMismatch as u32);
        if !refused {
            return Err(format!("parameter block with {what}: returned {code:?}"));
        }
        if stage.image() != before {
            return Err(format!("parameter block with {what}: memory was written"));
        }
        Ok(())
    };
    check("no address", DeviceAddress::NULL)?;
    check("an address off its alignment", stage.place(valid).offset(8))?;
    let headers: [Wrong<Header>; 3] = [
        ("another ABI", |header| header.abi ^= 1),
        ("another size", |header| header.bytes += 64),
        ("another layout", |header| header.layout ^= 1 << 40),
    ];
    for (what, change) in headers {
        let mut block = valid;
        change(header(&mut block));
        check(what, stage.place(block))?;
    }
    for (what, change) in own {
        let mut block = valid;
        change(&mut block);
        check(what, stage.place(block))?;
    }
    Ok(())
}
