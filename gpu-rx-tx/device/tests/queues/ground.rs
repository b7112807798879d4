//! What the memory of wires is made of, where nobody but the test's own code looks at it.

use warpwire_ring::DeviceAddress;

/// Zeroed pages.
pub(crate) struct Ground(Vec<Page>);

#[derive(Clone, Copy)]
#[repr(C, align(4096))]
struct Page([u8; 4096]);

impl Ground {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(vec![Page([0; 4096]); bytes.div_ceil(size_of::<Page>())])
    }

    pub(crate) fn start(&mut self) -> DeviceAddress {
        DeviceAddress::new(self.0.as_mut_ptr() as u64)
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}
