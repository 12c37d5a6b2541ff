//! What an instruction may do, whatever engine runs it: the [`Context`] that the table's
//! semantics are written against.
//!
//! An engine supplies the few required methods; everything else is defined here once, so that the
//! engines cannot differ in it. An instruction that traps has changed nothing.

use crate::float::{self, Conditions, Format as FloatFormat, Integer, Rounding, soft};
use crate::memory::{Access, Amo, Barrier, CacheBlock, Fault, Mark, Memory, Scalar};
use crate::{Hart, control};

/// Where an instruction leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// To the instruction behind it.
    Next,
    /// To an address.
    Jump(u64),
}

impl From<()> for Flow {
    #[inline(always)]
    fn from((): ()) -> Self {
        Self::Next
    }
}

/// Why an instruction was not executed; [`crate::Exit`] without what only an engine knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trap {
    Fault(Fault),
    Misaligned {
        access: Access,
        address: u64,
    },
    EnvironmentCall,
    Breakpoint,
    Illegal,
    /// Nothing happened yet: what is to do is too long for [`Context::SHORT`].
    Detour,
}

impl From<Fault> for Trap {
    #[inline(always)]
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl Trap {
    /// The exit for this trap by the instruction `bits`. A detour never gets here.
    pub(crate) fn exit(self, bits: u32) -> crate::Exit {
        match self {
            Self::Fault(fault) => crate::Exit::Fault(fault),
            Self::Misaligned { access, address } => crate::Exit::Misaligned { access, address },
            Self::EnvironmentCall => crate::Exit::EnvironmentCall,
            Self::Breakpoint => crate::Exit::Breakpoint,
            Self::Illegal | Self::Detour => crate::Exit::Illegal { bits },
        }
    }
}

/// What an instruction's semantics return.
pub(crate) type Executed = Result<Flow, Trap>;

/// How a CSR instruction changes the CSR.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CsrChange {
    Write,
    Set,
    Clear,
}

/// One instruction under execution: its operands, its hart, its memory.
pub(crate) trait Context {
    /// The memory behind the hart.
    type Memory: Memory;

    /// True where an instruction may only do what needs no function call: anything longer traps
    /// as [`Trap::Detour`] before it has changed anything, and the engine runs the instruction
    /// again in a context where this is false.
    const SHORT: bool;

    fn hart(&self) -> &Hart;
    fn hart_mut(&mut self) -> &mut Hart;
    fn memory(&mut self) -> &mut Self::Memory;
    /// Instructions that the hart has retired before this one.
    fn retired(&self) -> u64;
    /// Register numbers, below 32.
    fn rs1_number(&self) -> usize;
    fn rs2_number(&self) -> usize;
    /// The immediate (see `encoding::Format::immediate`), sign-extended.
    fn immediate(&self) -> u64;
    /// This instruction's address plus its immediate.
    fn target(&self) -> u64;
    /// The address of the instruction behind this one.
    fn next_pc(&self) -> u64;
    /// Writes `rd`; writing `x0` has no effect.
    fn set_rd(&mut self, value: u64);
    /// Writes floating-point `rd`, all 64 bits.
    fn set_fd(&mut self, value: u64);

    // Integer operands.

    #[inline(always)]
    fn rs1(&self) -> u64 {
        self.hart().x[self.rs1_number()]
    }

    #[inline(always)]
    fn rs2(&self) -> u64 {
        self.hart().x[self.rs2_number()]
    }

    /// Sets `rd` to the low 32 bits of `value`, sign-extended.
    #[inline(always)]
    fn set_rd_word(&mut self, value: u64) {
        self.set_rd(sign_extend_word(value));
    }

    #[inline(always)]
    fn branch(&self, taken: bool) -> Flow {
        if taken {
            Flow::Jump(self.target())
        } else {
            Flow::Next
        }
    }

    // Memory.

    /// Loads at `rs1 + immediate`, zero-extended.
    #[inline(always)]
    fn load<T: Scalar>(&mut self) -> Result<u64, Trap> {
        let address = self.rs1().wrapping_add(self.immediate());
        let retired = self.retired();
        if Self::SHORT {
            let hit = self.memory().load_hit::<T>(address, retired);
            return hit.map(Scalar::to_u64).ok_or(Trap::Detour);
        }
        Ok(self.memory().load::<T>(address, retired)?.to_u64())
    }

    /// Stores the low bits of `value` at `rs1 + immediate`.
    #[inline(always)]
    fn store<T: Scalar>(&mut self, value: u64) -> Result<(), Trap> {
        let address = self.rs1().wrapping_add(self.immediate());
        let retired = self.retired();
        let value = T::from_u64(value);
        if Self::SHORT {
            let hit = self.memory().store_hit::<T>(address, value, retired);
            return if hit { Ok(()) } else { Err(Trap::Detour) };
        }
        Ok(self.memory().store::<T>(address, value, retired)?)
    }

    #[inline(always)]
    fn aligned<T: Scalar>(&self, access: Access) -> Result<u64, Trap> {
        let address = self.rs1();
        if address.is_multiple_of(T::BYTES as u64) {
            Ok(address)
        } else {
            Err(Trap::Misaligned { access, address })
        }
    }

    #[inline(always)]
    fn load_reserved<T: Scalar>(&mut self) -> Result<(), Trap> {
        let address = self.aligned::<T>(Access::Load)?;
        let retired = self.retired();
        let value = self.memory().load_reserved::<T>(address, retired)?;
        self.set_rd(sign_extend::<T>(value));
        Ok(())
    }

    #[inline(always)]
    fn store_conditional<T: Scalar>(&mut self) -> Result<(), Trap> {
        let address = self.aligned::<T>(Access::Store)?;
        let (value, retired) = (T::from_u64(self.rs2()), self.retired());
        let stored = self
            .memory()
            .store_conditional::<T>(address, value, retired)?;
        self.set_rd(u64::from(!stored));
        Ok(())
    }

    #[inline(always)]
    fn atomic<T: Scalar>(&mut self, operation: Amo) -> Result<(), Trap> {
        let address = self.aligned::<T>(Access::Store)?;
        let (operand, retired) = (T::from_u64(self.rs2()), self.retired());
        let old = self
            .memory()
            .atomic::<T>(operation, address, operand, retired)?;
        self.set_rd(sign_extend::<T>(old));
        Ok(())
    }

    #[inline(always)]
    fn cache_block(&mut self, operation: CacheBlock) -> Result<(), Trap> {
        let (address, retired) = (self.rs1(), self.retired());
        Ok(self.memory().cache_block(operation, address, retired)?)
    }

    /// Stores `rs2` at `rs1`, around the caches.
    #[inline(always)]
    fn store_non_temporal(&mut self) -> Result<(), Trap> {
        let (address, value, retired) = (self.rs1(), self.rs2(), self.retired());
        Ok(self.memory().store_non_temporal(address, value, retired)?)
    }

    #[inline(always)]
    fn barrier(&mut self, barrier: Barrier) {
        let retired = self.retired();
        self.memory().barrier(barrier, retired);
    }

    #[inline(always)]
    fn mark(&mut self, mark: impl Fn(u64, u64) -> Mark) -> Result<(), Trap> {
        let (mark, retired) = (mark(self.rs1(), self.rs2()), self.retired());
        Ok(self.memory().mark(mark, retired)?)
    }

    #[inline(always)]
    fn fence(&mut self) {
        let (sets, retired) = (self.immediate(), self.retired());
        self.memory()
            .fence((sets >> 4 & 0xf) as u8, (sets & 0xf) as u8, retired);
    }

    #[inline(always)]
    fn fence_instruction(&mut self) {
        let retired = self.retired();
        self.memory().fence_instruction(retired);
    }

    #[inline(always)]
    fn persistence(&mut self) -> Result<(), Trap> {
        let function = self.immediate() as u16;
        let (operands, retired) = ([self.rs1(), self.rs2()], self.retired());
        let value = self
            .memory()
            .persistence(function, operands, retired)?
            .ok_or(Trap::Illegal)?;
        self.set_rd(value);
        Ok(())
    }

    /// A CSR instruction with `operand`. Setting or clearing nothing by register number 0, or by
    /// the immediate 0 (which sits in the same field), does not count as a write.
    fn csr(&mut self, change: CsrChange, operand: u64) -> Result<(), Trap> {
        let number = self.immediate() as u16;
        let retired = self.retired();
        let fcsr = self.hart().fcsr;
        let old = control::read(number, fcsr, retired, self.memory()).ok_or(Trap::Illegal)?;
        if change == CsrChange::Write || self.rs1_number() != 0 {
            let new = match change {
                CsrChange::Write => operand,
                CsrChange::Set => old | operand,
                CsrChange::Clear => old & !operand,
            };
            self.hart_mut().fcsr = control::write(number, fcsr, new).ok_or(Trap::Illegal)?;
        }
        self.set_rd(old);
        Ok(())
    }

    // Floating point.

    #[inline(always)]
    fn fs1<F: FloatFormat>(&self) -> F {
        F::unbox(self.hart().f[self.rs1_number()])
    }

    #[inline(always)]
    fn fs2<F: FloatFormat>(&self) -> F {
        F::unbox(self.hart().f[self.rs2_number()])
    }

    #[inline(always)]
    fn fs3<F: FloatFormat>(&self) -> F {
        F::unbox(self.hart().f[(self.immediate() >> 3) as usize & 31])
    }

    /// The instruction's rounding mode, the dynamic one looked up.
    #[inline(always)]
    fn rounding(&self) -> Result<Rounding, Trap> {
        float::rounding(self.immediate() as u32 & 7, self.hart().fcsr).ok_or(Trap::Illegal)
    }

    /// What the host may build on for an operation by `rounding`.
    #[inline(always)]
    fn conditions(&self, rounding: Rounding) -> Conditions {
        Conditions {
            rounding,
            inexact_already: self.hart().fcsr & float::INEXACT != 0,
            may_test_exactness: !Self::SHORT,
        }
    }

    /// The host's result if it has one, else SoftFloat's.
    #[inline(always)]
    fn float_result<R>(
        &mut self,
        rounding: Rounding,
        quick: impl FnOnce(Conditions) -> Option<R>,
        exact: impl FnOnce(Rounding, &mut u32) -> R,
    ) -> Result<R, Trap> {
        match quick(self.conditions(rounding)) {
            Some(result) => Ok(result),
            None if Self::SHORT => Err(Trap::Detour),
            None => Ok(exact(rounding, &mut self.hart_mut().fcsr)),
        }
    }

    #[inline(always)]
    fn float_unary<F: FloatFormat, R: FloatFormat>(
        &mut self,
        quick: impl FnOnce(F, Conditions) -> Option<R>,
        exact: impl FnOnce(F, Rounding, &mut u32) -> R,
    ) -> Result<(), Trap> {
        let rounding = self.rounding()?;
        let a = self.fs1();
        let result = self.float_result(
            rounding,
            |given| quick(a, given),
            |mode, fcsr| exact(a, mode, fcsr),
        )?;
        self.set_fd(result.boxed());
        Ok(())
    }

    #[inline(always)]
    fn float_binary<F: FloatFormat>(
        &mut self,
        quick: impl FnOnce(F, F, Conditions) -> Option<F>,
        exact: impl FnOnce(F, F, Rounding, &mut u32) -> F,
    ) -> Result<(), Trap> {
        let rounding = self.rounding()?;
        let (a, b) = (self.fs1(), self.fs2());
        let result = self.float_result(
            rounding,
            |given| quick(a, b, given),
            |mode, fcsr| exact(a, b, mode, fcsr),
        )?;
        self.set_fd(result.boxed());
        Ok(())
    }

    /// `±(fs1 × fs2) ± fs3`, rounded once.
    #[inline(always)]
    fn float_fused<F: FloatFormat>(
        &mut self,
        negate_product: bool,
        negate_addend: bool,
    ) -> Result<(), Trap> {
        let rounding = self.rounding()?;
        let (a, b, c) = (self.fs1::<F>(), self.fs2::<F>(), self.fs3::<F>());
        let a = if negate_product { a.negated() } else { a };
        let c = if negate_addend { c.negated() } else { c };
        let result = self.float_result(
            rounding,
            |given| float::fused_multiply_add(a, b, c, given),
            |mode, fcsr| soft::fused_multiply_add(a, b, c, mode, fcsr),
        )?;
        self.set_fd(result.boxed());
        Ok(())
    }

    /// A conversion by SoftFloat, from register to register.
    #[inline(always)]
    fn float_convert(
        &mut self,
        convert: impl FnOnce(u64, Rounding, &mut u32) -> u64,
    ) -> Result<(), Trap> {
        let rounding = self.rounding()?;
        if Self::SHORT {
            return Err(Trap::Detour);
        }
        let register = self.hart().f[self.rs1_number()];
        let result = convert(register, rounding, &mut self.hart_mut().fcsr);
        self.set_fd(result);
        Ok(())
    }

    /// An operation on two numbers that never rounds: sign injection, minimum, maximum.
    #[inline(always)]
    fn float_exact<F: FloatFormat>(&mut self, operation: impl Fn(F, F, &mut u32) -> F) {
        let (a, b) = (self.fs1(), self.fs2());
        let result = operation(a, b, &mut self.hart_mut().fcsr);
        self.set_fd(result.boxed());
    }

    #[inline(always)]
    fn float_compare<F: FloatFormat>(&mut self, operation: impl Fn(F, F, &mut u32) -> bool) {
        let (a, b) = (self.fs1(), self.fs2());
        let result = operation(a, b, &mut self.hart_mut().fcsr);
        self.set_rd(u64::from(result));
    }

    #[inline(always)]
    fn float_to_integer<F: FloatFormat>(&mut self, integer: Integer) -> Result<(), Trap> {
        let rounding = self.rounding()?;
        let a = self.fs1::<F>();
        let result = self.float_result(
            rounding,
            |given| float::to_integer(a, integer, given),
            |mode, fcsr| soft::to_integer(a, integer, mode, fcsr),
        )?;
        self.set_rd(result);
        Ok(())
    }

    #[inline(always)]
    fn integer_to_float<F: FloatFormat>(&mut self, integer: Integer) -> Result<(), Trap> {
        let rounding = self.rounding()?;
        let a = self.rs1();
        let result: F = self.float_result(
            rounding,
            |given| float::from_integer(a, integer, given),
            |mode, fcsr| soft::from_integer(a, integer, mode, fcsr),
        )?;
        self.set_fd(result.boxed());
        Ok(())
    }
}

/// The product of two numbers whose digits are added without carries.
#[inline(always)]
pub(crate) fn carryless_product(a: u64, b: u64) -> u128 {
    let (mut product, mut shifted, mut left) = (0, u128::from(a), b);
    while left != 0 {
        if left & 1 != 0 {
            product ^= shifted;
        }
        shifted <<= 1;
        left >>= 1;
    }
    product
}

/// The low 32 bits, sign-extended.
#[inline(always)]
pub(crate) fn sign_extend_word(value: u64) -> u64 {
    value as i32 as u64
}

/// A loaded value, sign-extended from its width.
#[inline(always)]
fn sign_extend<T: Scalar>(value: T) -> u64 {
    let unused_bits = 64 - 8 * T::BYTES as u32;
    ((value.to_u64() << unused_bits) as i64 >> unused_bits) as u64
}
