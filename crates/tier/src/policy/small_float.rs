//! A non-negative number in 10 bits: 5 of exponent, 5 of mantissa.
//!
//! ```text
//! 9        5 4        0
//! | exponent | mantissa |     exponent > 0: (32 + mantissa) · 2^(exponent - 33)
//!                             exponent = 0: mantissa · 2^-32
//! ```
//!
//! # What it promises
//! 1. The order of the bits is the order of the numbers.
//! 2. A number of at least 2^-27 is kept within 1/64 of itself. Values that fade by the same factor each period keep
//!    their order for about 20 periods. Fixed point of as many bits loses it after four.
//! 3. Conversion is monotone: of two numbers the larger never becomes the smaller.

/// The number; see the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SmallFloat(u16);

const MANTISSA_BITS: u32 = 5;
const MANTISSAS: u16 = 1 << MANTISSA_BITS;
const MOST_BITS: u16 = (1 << SmallFloat::BITS) - 1;
/// The unit of a mantissa where the exponent is 0 or 1: 2^-32.
const UNIT: f64 = 1.0 / (1_u64 << 32) as f64;

impl SmallFloat {
    /// Bits that a number takes.
    pub const BITS: u32 = 10;
    /// Nothing.
    pub const ZERO: SmallFloat = SmallFloat(0);
    /// 15.75.
    pub const MOST: SmallFloat = SmallFloat(MOST_BITS);

    /// The nearest number; what is larger than [`SmallFloat::MOST`] becomes that, what is no number or negative 0.
    pub fn new(value: f64) -> SmallFloat {
        if value.is_nan() || value <= 0.0 {
            return SmallFloat::ZERO;
        }
        let mut units = value / UNIT;
        let mut exponent = 0;
        // A number of 64 units or more has a larger exponent; rounding may carry into the next one, whose bits
        // then are right by themselves.
        while units >= f64::from(2 * MANTISSAS) && exponent < 40 {
            units /= 2.0;
            exponent += 1;
        }
        let bits = f64::from(exponent * MANTISSAS) + units.round();
        SmallFloat(bits.min(f64::from(MOST_BITS)) as u16)
    }

    /// The number.
    pub fn value(self) -> f64 {
        let (exponent, mantissa) = (self.0 >> MANTISSA_BITS, self.0 % MANTISSAS);
        let (units, shift) = if exponent == 0 { (mantissa, 0) } else { (MANTISSAS + mantissa, exponent - 1) };
        f64::from(units) * (1_u64 << shift) as f64 * UNIT
    }

    /// Its bits.
    pub fn bits(self) -> u16 {
        self.0
    }

    /// The number of these bits; those above the tenth are ignored.
    pub fn from_bits(bits: u16) -> SmallFloat {
        SmallFloat(bits & MOST_BITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_number_is_its_own_nearest_and_they_ascend() {
        let mut last = -1.0;
        for bits in 0..=MOST_BITS {
            let number = SmallFloat::from_bits(bits);
            assert_eq!(SmallFloat::new(number.value()), number, "{bits}");
            assert!(number.value() > last, "{bits}");
            last = number.value();
        }
        assert_eq!(last, 15.75);
    }

    #[test]
    fn numbers_by_hand() {
        for (value, kept) in [
            (0.0, 0.0),
            (-1.0, 0.0),
            (f64::NAN, 0.0),
            (1.0, 1.0),
            (5.0, 5.0),
            (4.99, 5.0),
            (1.74, 1.75),
            (1e9, 15.75),
            (f64::INFINITY, 15.75),
            (UNIT, UNIT),
            (UNIT / 3.0, 0.0),
            (15.99, 15.75),
            (63.9 * UNIT, 64.0 * UNIT),
        ] {
            assert_eq!(SmallFloat::new(value).value(), kept, "{value}");
        }
    }

    #[test]
    fn what_fades_ends_and_keeps_its_order_for_20_periods() {
        let fade = |number: SmallFloat| SmallFloat::new(number.value() / 3.0);
        let (mut high, mut low) = (SmallFloat::new(5.0), SmallFloat::new(3.0));
        for period in 0..19 {
            assert!(high > low, "{period}");
            (high, low) = (fade(high), fade(low));
        }
        for _ in 0..10 {
            high = fade(high);
        }
        assert_eq!(high, SmallFloat::ZERO);
    }

    proptest! {
        #[test]
        fn it_is_near_and_monotone(a in 0.0..15.75_f64, b in 0.0..15.75_f64, shift in 0..26) {
            let (a, b) = (a / f64::from(1 << shift), b / f64::from(1 << shift));
            let near = SmallFloat::new(a).value();
            prop_assert!((near - a).abs() <= a.max(1.0 / f64::from(1 << 27)) / 64.0);
            if a <= b {
                prop_assert!(SmallFloat::new(a) <= SmallFloat::new(b));
            }
        }
    }
}
