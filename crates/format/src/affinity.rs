//! The affinity of a column: which type SQLite turns its values into (<https://www.sqlite.org/datatype3.html>, section 3).

/// An affinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// Whole numbers where they can be.
    Integer,
    /// Texts.
    Text,
    /// Values as they are.
    Blob,
    /// Floating-point numbers.
    Real,
    /// Numbers where they can be.
    Numeric,
}

impl Affinity {
    /// The affinity of a declared type, by the rules of section 3.1; `ANY` of a STRICT table is the caller's affair.
    pub fn of(declared: &str) -> Affinity {
        let declared = declared.to_ascii_uppercase();
        let has = |names: &[&str]| names.iter().any(|name| declared.contains(name));
        match () {
            () if has(&["INT"]) => Affinity::Integer,
            () if has(&["CHAR", "CLOB", "TEXT"]) => Affinity::Text,
            () if has(&["BLOB"]) || declared.is_empty() => Affinity::Blob,
            () if has(&["REAL", "FLOA", "DOUB"]) => Affinity::Real,
            () => Affinity::Numeric,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_types_have_the_affinity_of_the_manual() {
        for (declared, affinity) in [
            ("INT", Affinity::Integer),
            ("tinyint", Affinity::Integer),
            ("FLOATING POINT", Affinity::Integer),
            ("CHARINT", Affinity::Integer),
            ("VARCHAR(255)", Affinity::Text),
            ("clob", Affinity::Text),
            ("BLOB", Affinity::Blob),
            ("", Affinity::Blob),
            ("double precision", Affinity::Real),
            ("float", Affinity::Real),
            ("STRING", Affinity::Numeric),
            ("DECIMAL(10,5)", Affinity::Numeric),
            ("ANY", Affinity::Numeric),
        ] {
            assert_eq!(Affinity::of(declared), affinity, "{declared}");
        }
    }
}
