//! What a test does at the end of a scope in any case.

/// Does something once it is dropped, also where the test fails: threads end so that the test waits for.
pub struct AtEnd<F: Fn()>(pub F);

impl<F: Fn()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        self.0();
    }
}
