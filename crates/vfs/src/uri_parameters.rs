//! URI parameters of a database: options, among the parameters of SQLite, drivers and applications.
//!
//! SQLite ignores unknown parameters, and applications and drivers keep their own there. But a typo in an option must not
//! silently cost durability. So:
//!
//! | parameter | is |
//! |---|---|
//! | `litefoot_NAME` | the option `NAME`; an error where there is none |
//! | `NAME` of an option | that option |
//! | almost the name of an option, in a URI that says `vfs=litefoot` | an error |
//! | anything else | ignored |

use crate::options::Options;

/// The name of the VFS, as in `vfs=litefoot`.
pub const VFS_NAME: &str = "litefoot";

/// The prefix of a parameter that is meant for litefoot.
const PREFIX: &str = "litefoot_";

/// Parameters of SQLite and of the VFSes that come with it; none of them is a misspelt option.
const SQLITES: [&str; 14] = [
    "vfs",
    "mode",
    "cache",
    "psow",
    "nolock",
    "immutable",
    "modeof",
    "readonly_shm",
    "key",
    "hexkey",
    "textkey",
    "chunksize",
    "truncate",
    "cksm",
];

/// Sets the options among the parameters of a database.
pub(crate) fn apply(options: &mut Options, parameters: &[(String, String)]) -> Result<(), String> {
    let by_name = parameters.iter().any(|(name, value)| name == "vfs" && value == VFS_NAME);
    for (name, value) in parameters {
        if let Some(option) = option(name, by_name) {
            options.set(option, value)?;
        }
    }
    Ok(())
}

/// The option that a parameter sets, be it known or not; `None` for a parameter of others.
fn option(parameter: &str, by_name: bool) -> Option<&str> {
    if let Some(option) = parameter.strip_prefix(PREFIX) {
        return Some(option);
    }
    if SQLITES.contains(&parameter) {
        return None;
    }
    let is_meant = Options::known(parameter)
        || (by_name
            && !parameter.starts_with('_')
            && Options::all().any(|option| is_misspelling(parameter, option)));
    is_meant.then_some(parameter)
}

/// True where one letter is added, left out or changed between two words, or two neighbours are swapped.
fn is_misspelling(word: &str, other: &str) -> bool {
    let (word, other) = (word.as_bytes(), other.as_bytes());
    let same = word.iter().zip(other).take_while(|(a, b)| a == b).count();
    let (word, other) = (&word[same..], &other[same..]);
    match word.len().abs_diff(other.len()) {
        0 => {
            let swapped = matches!((word, other), ([a, b, ..], [c, d, ..]) if a == d && b == c);
            word.get(1..) == other.get(1..) || (swapped && word[2..] == other[2..])
        }
        1 => word.get(1..) == Some(other) || other.get(1..) == Some(word),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Sharing;

    fn set(list: &[(&str, &str)]) -> Result<Options, String> {
        let list: Vec<_> =
            list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let mut options = Options::default();
        apply(&mut options, &list).map(|()| options)
    }

    #[test]
    fn what_belongs_to_others_is_ignored() {
        for name in ["another", "readonly_shm", "hexkey", "mode", "_journal_mode", "shard", "x", "pools", ""]
        {
            assert_eq!(set(&[(name, "1")]), Ok(Options::default()), "{name}");
        }
        for name in ["another", "mode", "_pool", "chunksize", "timeout", "p"] {
            assert_eq!(set(&[("vfs", "litefoot"), (name, "1")]), Ok(Options::default()), "{name}");
        }
    }

    #[test]
    fn options_are_set_with_and_without_the_prefix() {
        let expected = Options { sharing: Sharing::Passthrough, ..Options::default() };
        assert_eq!(set(&[("sharing", "passthrough")]), Ok(expected.clone()));
        assert_eq!(set(&[("other", "x"), ("litefoot_sharing", "passthrough")]), Ok(expected));
        assert!(set(&[("sharing", "maybe")]).is_err());
    }

    #[test]
    fn a_misspelt_option_is_an_error() {
        for name in ["litefoot_shard", "litefoot_", "litefoot_mode"] {
            assert!(set(&[(name, "1")]).unwrap_err().contains("unknown option"), "{name}");
        }
        for name in [
            "sharring",
            "buffer_pool_sizes",
            "buffer_poll_size",
            "uffer_pool_size",
            "shairng",
            "commit_log_szie",
            "write_buffer_sise",
        ] {
            let message = set(&[("vfs", "litefoot"), (name, "1")]).unwrap_err();
            assert!(message.contains("unknown option"), "{name}: {message}");
        }
    }
}
