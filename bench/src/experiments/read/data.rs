//! The contents of the databases by calculation: every answer is known without a database.

/// Bytes of a row's body: rows of 200 to 350 bytes with the rest. Their lengths differ, as in applications. With equal
/// lengths the processor predicts the next row of a page. A scan of a map or of the pool is half as fast again then.
const BODY_BYTES: std::ops::RangeInclusive<usize> = 180..=330;
/// Bytes of the file for a row of `item` when it is loaded in key order, with its part of the index and of `link`.
pub const FILE_BYTES_PER_ROW: u64 = 300;
/// Rows of `item` for each row of `link`.
const ITEMS_PER_LINK: u32 = 4;

/// The content of a database: the tables `item` and `link`. The rows of `item` have the ids 1 to [`Data::rows`]; those
/// of `link` have the ids 1 to [`Data::links`], and point to rows of `item`.
pub struct Data {
    seed: u64,
    /// The key of the row with the id of that place, from 1: all keys from 1 to the number of rows in random order.
    key_of: Vec<u32>,
    /// The other way round.
    id_of: Vec<u32>,
}

impl Data {
    /// As many rows as make a file of about so many bytes.
    pub fn of_file(bytes: u64, seed: u64) -> Data {
        let rows = u32::try_from(bytes / FILE_BYTES_PER_ROW).unwrap_or(u32::MAX).max(ITEMS_PER_LINK);
        let mut key_of: Vec<u32> = (1..=rows).collect();
        fastrand::Rng::with_seed(seed).shuffle(&mut key_of);
        let mut id_of = vec![0; key_of.len()];
        key_of.iter().zip(1..).for_each(|(key, id)| id_of[*key as usize - 1] = id);
        Data { seed, key_of, id_of }
    }

    /// Rows of `item`.
    pub fn rows(&self) -> i64 {
        self.key_of.len() as i64
    }

    /// Its bytes in memory.
    pub fn memory_bytes(&self) -> u64 {
        (size_of_val(self.key_of.as_slice()) + size_of_val(self.id_of.as_slice())) as u64
    }

    /// Rows of `link`.
    pub fn links(&self) -> i64 {
        self.rows() / i64::from(ITEMS_PER_LINK)
    }

    /// `item.k`: in random order over the ids, so that neighbours in the index are not neighbours in the table.
    pub fn key(&self, id: i64) -> i64 {
        i64::from(self.key_of[id as usize - 1])
    }

    /// The id of the row with that key.
    pub fn id(&self, key: i64) -> i64 {
        i64::from(self.id_of[key as usize - 1])
    }

    /// `item.n`.
    pub fn number(&self, id: i64) -> i64 {
        (self.random(id as u64) >> 33) as i64
    }

    /// The first eight bytes of `item.body`.
    pub fn head(&self, id: i64) -> u64 {
        self.random(!id as u64)
    }

    /// `item.body`.
    pub fn body(&self, id: i64, body: &mut Vec<u8>) {
        let mut random = fastrand::Rng::with_seed(self.head(id));
        body.resize(random.usize(BODY_BYTES), 0);
        random.fill(body);
        body[..8].copy_from_slice(&self.head(id).to_le_bytes());
    }

    /// `link.item`: a random row of `item`.
    pub fn linked(&self, link: i64) -> i64 {
        1 + (self.random(link as u64 | 1 << 40) % self.key_of.len() as u64) as i64
    }

    /// `link.n`.
    pub fn weight(&self, link: i64) -> i64 {
        (self.random(link as u64 | 1 << 41) >> 33) as i64
    }

    /// The end of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
    fn random(&self, number: u64) -> u64 {
        let mut z = self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_ids_are_each_others_inverse() {
        let data = Data::of_file(30_000, 5);
        assert_eq!((data.rows(), data.links()), (100, 25));
        assert!((1..=100).all(|id| data.id(data.key(id)) == id));
        assert!((1..=25).all(|link| (1..=100).contains(&data.linked(link))));
        let mut body = Vec::new();
        for id in 1..=100 {
            data.body(id, &mut body);
            assert!(BODY_BYTES.contains(&body.len()) && body[..8] == data.head(id).to_le_bytes());
        }
    }
}
