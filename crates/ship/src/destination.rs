//! From a URL to a destination.
//!
//! Secrets never stand in a URL: it is in the list of processes, in logs and in the status. They come from the environment, or from a file.

use crate::backup::Backup;
use crate::jobs::Job;
use crate::sink::Sink;
#[cfg(feature = "cloud")]
use crate::store::Bucket;
use crate::store::{Directory, Store};
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Schemes that are understood.
pub const SCHEMES: &str = if cfg!(feature = "cloud") {
    "file:///directory, s3://bucket/folder, gs://bucket/folder, az://container/folder"
} else {
    "file:///directory; this program was built without buckets"
};

/// The sink of a job. Nothing is asked of the network yet.
pub fn sink(job: &Job, scratch: &Path) -> Result<Box<dyn Sink>> {
    let store = store(&job.url, job.credentials.as_deref())?;
    Ok(Box::new(Backup::new(store, job.node(), scratch)))
}

/// The store of a backup.
#[cfg_attr(not(feature = "cloud"), expect(unused_variables))]
pub fn store(url: &str, credentials: Option<&Path>) -> Result<Arc<dyn Store>> {
    check(url)?;
    match url.split_once("://") {
        Some(("file", path)) if path.starts_with('/') => Ok(Arc::new(Directory::new(&PathBuf::from(path)))),
        Some(("file", _)) => Err(refused(url, "a directory is named by its whole path: file:///backup/app")),
        Some((scheme, _)) => {
            Err(refused(url, &format!("{scheme}:// is no destination; there are: {SCHEMES}")))
        }
        None => Err(refused(url, &format!("is no URL; there are: {SCHEMES}"))),
    }
}

/// Refuses a URL that has a secret in it.
pub fn check(url: &str) -> Result<()> {
    let authority = url.split_once("://").map_or("", |(_, rest)| rest.split('/').next().unwrap_or_default());
    if authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':')) {
        let why = "a password in a URL is seen by everybody who lists processes; pass it by the environment or by --credentials FILE";
        return Err(refused(&without_secret(url), why));
    }
    Ok(())
}

/// A URL without the user and the password in it.
fn without_secret(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    match authority.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://{host}{path}"),
        None => url.to_owned(),
    }
}

fn refused(url: &str, why: &str) -> Error {
    Error::Refused { place: url.to_owned(), why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_leads_to_a_store_or_says_why_not() {
        assert_eq!(store("file:///backup/app", None).unwrap().place(), "file:///backup/app");
        for (url, why) in [
            ("file://backup", "whole path"),
            ("gopher://x", "no destination"),
            ("/backup", "no URL"),
            ("postgres://me:secret@host/x", "password"),
        ] {
            let error = store(url, None).err().unwrap().to_string();
            assert!(error.contains(why) && !error.contains("secret"), "{error}");
        }
        assert!(check("postgres://me@host/x").is_ok());
    }
}
