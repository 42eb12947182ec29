//! The registers of a thread that has stopped, and calls that it is made to make.
//!
//! # Limits
//! For x86-64. Other processors pair a load with a store that fails where the thread has stopped in between: a thread that is stepped over such a
//! pair never comes to its end.

use super::{Waited, wait_for};
use libc::pid_t;
use std::io;

/// The bytes of the instruction that makes a call.
#[cfg(target_arch = "x86_64")]
const CALL_INSTRUCTION: [u8; 2] = [0x0f, 0x05];

/// Bytes that may come before the one that says what an instruction does: repeats, and sizes.
#[cfg(target_arch = "x86_64")]
const PREFIXES: [u8; 4] = [0x66, 0x67, 0xf2, 0xf3];
#[cfg(target_arch = "x86_64")]
const REX: std::ops::RangeInclusive<u8> = 0x40..=0x4f;
/// `movs` and `stos`.
#[cfg(target_arch = "x86_64")]
const STRINGS: [u8; 4] = [0xa4, 0xa5, 0xaa, 0xab];
/// The register that says what stops a thread; and that it stops before the instruction whose address is in the first one.
#[cfg(target_arch = "x86_64")]
const DEBUG_CONTROL: usize = 7;
#[cfg(target_arch = "x86_64")]
const BREAKPOINT: u64 = 1;

/// What a thread was stopped with.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(super) struct Registers(libc::user_regs_struct);

#[cfg(target_arch = "x86_64")]
impl Registers {
    pub(super) fn of(thread: pid_t) -> io::Result<Registers> {
        let mut registers = std::mem::MaybeUninit::<libc::user_regs_struct>::zeroed();
        // SAFETY: the request writes a structure of this type; zeros are a value of it.
        unsafe {
            let place = registers.as_mut_ptr();
            if libc::ptrace(libc::PTRACE_GETREGS, thread, 0_usize, place) < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Registers(registers.assume_init()))
        }
    }

    pub(super) fn set(&self, thread: pid_t) -> io::Result<()> {
        // SAFETY: the request reads a structure of this type.
        let done = unsafe { libc::ptrace(libc::PTRACE_SETREGS, thread, 0_usize, &raw const self.0) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// The instruction that comes next.
    pub(super) fn instruction(&self) -> u64 {
        self.0.rip
    }

    /// The instruction by which the thread has made the call that it is in, or has just made.
    pub(super) fn call_instruction(&self, thread: pid_t) -> Option<u64> {
        let address = self.0.rip.checked_sub(CALL_INSTRUCTION.len() as u64)?;
        // SAFETY: the request reads the other process's memory.
        let word = unsafe { libc::ptrace(libc::PTRACE_PEEKTEXT, thread, address, 0_usize) };
        word.to_ne_bytes().starts_with(&CALL_INSTRUCTION).then_some(address)
    }

    /// The call that the thread is about to make is not made.
    pub(super) fn without_call(mut self) -> Registers {
        self.0.orig_rax = u64::MAX;
        self
    }

    /// The instruction behind this one, where this one is a string instruction that writes, and may repeat itself.
    pub(super) fn behind_string(&self, thread: pid_t) -> Option<u64> {
        // SAFETY: the request reads the other process's memory.
        let word = unsafe { libc::ptrace(libc::PTRACE_PEEKTEXT, thread, self.0.rip, 0_usize) };
        Some(self.0.rip + bytes_of_string(word.to_ne_bytes())?)
    }

    /// Lets the thread run until it comes to an instruction, or meets a signal.
    pub(super) fn run_to(thread: pid_t, instruction: u64) -> io::Result<Waited> {
        let poke = |number: usize, value: u64| {
            let place = std::mem::offset_of!(libc::user, u_debugreg) + number * size_of::<u64>();
            // SAFETY: the request writes a register of the thread's.
            match unsafe { libc::ptrace(libc::PTRACE_POKEUSER, thread, place, value) } {
                -1 => Err(io::Error::last_os_error()),
                _ => Ok(()),
            }
        };
        poke(0, instruction)?;
        poke(DEBUG_CONTROL, BREAKPOINT)?;
        let waited = wait_for(thread, libc::PTRACE_CONT)?;
        if !matches!(waited, Waited::End) {
            poke(DEBUG_CONTROL, 0)?;
        }
        Ok(waited)
    }

    /// Has the thread make a call by that instruction, and says what it has answered; its registers are those behind the call. Nothing is said of one that has ended.
    pub(super) fn call(
        &self,
        thread: pid_t,
        instruction: u64,
        number: libc::c_long,
        arguments: [u64; 3],
    ) -> io::Result<Option<i64>> {
        let mut theirs = self.0;
        (theirs.rip, theirs.rax, theirs.orig_rax) = (instruction, number.cast_unsigned(), u64::MAX);
        [theirs.rdi, theirs.rsi, theirs.rdx] = arguments;
        Registers(theirs).set(thread)?;
        match wait_for(thread, libc::PTRACE_SINGLESTEP)? {
            Waited::Stepped => Ok(Some(Registers::of(thread)?.0.rax.cast_signed())),
            Waited::Signal(signal) => Err(io::Error::other(format!("signal {signal} in a call"))),
            Waited::End => Ok(None),
        }
    }
}

/// How many bytes the instruction at the beginning has, where it is a string instruction that writes.
#[cfg(target_arch = "x86_64")]
fn bytes_of_string(code: [u8; 8]) -> Option<u64> {
    let at = code.iter().position(|byte| !PREFIXES.contains(byte) && !REX.contains(byte))?;
    STRINGS.contains(&code[at]).then_some(at as u64 + 1)
}

#[cfg(not(target_arch = "x86_64"))]
#[derive(Clone, Copy)]
pub(super) struct Registers;

#[cfg(not(target_arch = "x86_64"))]
impl Registers {
    pub(super) fn of(_: pid_t) -> io::Result<Registers> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn set(&self, _: pid_t) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn instruction(&self) -> u64 {
        0
    }

    pub(super) fn call_instruction(&self, _: pid_t) -> Option<u64> {
        None
    }

    pub(super) fn without_call(self) -> Registers {
        self
    }

    pub(super) fn behind_string(&self, _: pid_t) -> Option<u64> {
        None
    }

    pub(super) fn run_to(_: pid_t, _: u64) -> io::Result<Waited> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn call(&self, _: pid_t, _: u64, _: libc::c_long, _: [u64; 3]) -> io::Result<Option<i64>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use super::*;

    #[test]
    fn string_instructions_that_write_have_a_length() {
        for (code, bytes) in [
            (&[0xf3_u8, 0xa4][..], Some(2)),
            (&[0xf3, 0x48, 0xab], Some(3)),
            (&[0xaa], Some(1)),
            (&[0xf3, 0xac], None),
            (&[0x48, 0x89, 0xd1], None),
            (&[0xf3, 0x0f, 0x7f, 0x07], None),
        ] {
            let mut padded = [0x90; 8];
            padded[..code.len()].copy_from_slice(code);
            assert_eq!(bytes_of_string(padded), bytes, "{code:x?}");
        }
    }
}
