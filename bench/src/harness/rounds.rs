//! Sides that take turns, and what is made of their rounds.

use crate::Result;

/// Fewer rounds than this are no measurement, unless rounds are many and short.
pub const MIN_ROUNDS: usize = 5;

/// Lets the sides take turns in at least [`MIN_ROUNDS`]; see [`take_turns`].
pub fn interleave<S, T>(
    sides: &[S],
    rounds: usize,
    run: impl FnMut(usize, &S) -> Result<T>,
) -> Result<Vec<Vec<T>>> {
    take_turns(sides, rounds.max(MIN_ROUNDS), run)
}

/// Lets the sides take turns, A B C, B C A, C A B …, so that whatever drifts meanwhile drifts for all. Returns
/// the results of each side, one for each round.
pub fn take_turns<S, T>(
    sides: &[S],
    rounds: usize,
    mut run: impl FnMut(usize, &S) -> Result<T>,
) -> Result<Vec<Vec<T>>> {
    let mut results: Vec<Vec<T>> = sides.iter().map(|_| Vec::with_capacity(rounds)).collect();
    for round in 0..rounds {
        for side in turns(round, sides.len()) {
            results[side].push(run(round, &sides[side])?);
        }
    }
    Ok(results)
}

/// The order in which the sides take their turns in a round.
pub fn turns(round: usize, sides: usize) -> impl Iterator<Item = usize> {
    (0..sides).map(move |turn| (turn + round) % sides)
}

/// The middle value, the mean of the two middle ones for an even count; 0 of nothing.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        count if count.is_multiple_of(2) => (sorted[count / 2 - 1] + sorted[count / 2]) / 2.0,
        count => sorted[count / 2],
    }
}

/// The median of the ratios within each round.
pub fn median_ratio(values: &[f64], over: &[f64]) -> f64 {
    median(values.iter().zip(over).map(|(value, over)| value / over))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn sides_take_turns_and_never_fewer_than_five_rounds() {
        let mut order = String::new();
        let results = interleave(&['A', 'B', 'C'], 1, |round, side| {
            order.push(*side);
            Ok((round, *side))
        });
        assert_eq!(order, "ABCBCACABABCBCA");
        let results = results.unwrap();
        assert_eq!(results.len(), 3);
        assert_eq!(results[1], [(0, 'B'), (1, 'B'), (2, 'B'), (3, 'B'), (4, 'B')]);
    }

    #[test]
    fn a_failure_ends_the_rounds() {
        let mut runs = 0;
        let result: Result<Vec<Vec<()>>> = interleave(&[1, 2], 5, |_, _| {
            runs += 1;
            if runs == 3 { Err(Error::Stopped) } else { Ok(()) }
        });
        assert!(matches!(result, Err(Error::Stopped)));
        assert_eq!(runs, 3);
    }

    #[test]
    fn medians_and_ratios() {
        for (values, expected) in
            [(&[][..], 0.0), (&[3.0], 3.0), (&[9.0, 1.0], 5.0), (&[7.0, 1.0, 100.0], 7.0)]
        {
            assert_eq!(median(values.iter().copied()), expected, "{values:?}");
        }
        // Twice as fast in each round, though the machine was ten times slower in one of them.
        assert_eq!(median_ratio(&[20.0, 2.0, 22.0], &[10.0, 1.0, 11.0]), 2.0);
    }
}
