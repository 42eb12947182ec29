//! From a URL to a destination.
//!
//! Secrets never stand in a URL: it is in the list of processes, in logs and in the status. They come from the environment, or from a file.

use crate::backup::Backup;
use crate::collect::TOKEN;
use crate::credentials::secret;
use crate::jobs::{Format, Job};
use crate::rows::{RowShipper, Selection};
use crate::sink::Sink;
#[cfg(feature = "cloud")]
use crate::store::Bucket;
use crate::store::{Directory, Store};
use crate::{Error, Result};
use litefoot_rowsink::Destination;
use litefoot_rowsink::collect::{Collector, Line};
use litefoot_rowsink::lines::{Directory as Lines, Format as LineFormat, Stream};
#[cfg(feature = "nats")]
use litefoot_rowsink::nats::{Credentials, Nats, read_creds};
use litefoot_rowsink::postgres::Postgres;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The schema of PostgreSQL that tables are in.
pub(crate) const SCHEMA: &str = "public";

/// The variables, or the lines of a file, that name the files of a device's certificate and of its key.
const CERTIFICATE: [&str; 2] = ["LITEFOOT_COLLECT_CERTIFICATE", "LITEFOOT_COLLECT_KEY"];

/// Schemes that are understood.
pub fn schemes() -> String {
    let buckets = if cfg!(feature = "cloud") {
        ", s3://bucket/folder, gs://bucket/folder, az://container/folder"
    } else {
        ""
    };
    let collectors =
        if cfg!(feature = "tls") { "collect://host:port" } else { "collect+tcp://127.0.0.1:port" };
    let streams = if cfg!(feature = "nats") { ", nats://host:port/stream" } else { "" };
    let without = match (cfg!(feature = "cloud"), cfg!(feature = "nats")) {
        (true, true) => "",
        (true, false) => "; this program was built without NATS",
        (false, true) => "; this program was built without buckets",
        (false, false) => "; this program was built without buckets and NATS",
    };
    format!(
        "file:///directory{buckets}; for rows: postgres://user@host/database, {collectors}{streams}, jsonl:///directory, jsonl:-{without}"
    )
}

/// The sink of a job. Nothing is asked of the network yet.
pub fn sink(job: &Job, scratch: &Path) -> Result<Box<dyn Sink>> {
    if let Some(destination) = rows(&job.url, job.credentials.as_deref(), format_of(job)?)? {
        let (tables, keep_deleted) = (job.tables.clone(), job.keep_deleted.clone());
        let selection = Selection { tables, keep_deleted, history: job.history };
        return Ok(Box::new(RowShipper::new(destination, job.origin(), selection)));
    }
    let store = store(&job.url, job.credentials.as_deref())?;
    Ok(Box::new(Backup::new(store, job.node(), scratch)))
}

/// True for a destination of rows; false for one of backups.
pub fn takes_rows(url: &str, credentials: Option<&Path>) -> Result<bool> {
    rows(url, credentials, LineFormat::default()).map(|found| found.is_some())
}

/// What lines of a job are.
fn format_of(job: &Job) -> Result<LineFormat> {
    match job.format {
        Format::Json => Ok(LineFormat::Changes),
        _ if !takes_lines(&job.url) => {
            Err(refused(&job.url, "a format is for destinations of lines: jsonl: and NATS"))
        }
        Format::Changeset => Ok(LineFormat::Changeset),
        Format::Debezium => {
            let name = job.database.file_stem().unwrap_or_default();
            Ok(LineFormat::Debezium(name.to_string_lossy().into_owned()))
        }
    }
}

/// True for a destination whose lines have a format.
pub fn takes_lines(url: &str) -> bool {
    matches!(url.split_once(':'), Some(("jsonl" | "nats" | "tls", _)))
}

/// The destination of rows, if it is one.
pub(crate) fn rows(
    url: &str,
    credentials: Option<&Path>,
    format: LineFormat,
) -> Result<Option<Box<dyn Destination>>> {
    check(url)?;
    Ok(Some(match url.split_once(':') {
        Some(("postgres" | "postgresql", _)) => {
            let password = secret("PGPASSWORD", credentials)?;
            Box::new(Postgres::new(url, SCHEMA)?.with_password(password.as_deref()))
        }
        Some(("collect" | "collect+tcp", _)) => Box::new(collector(url, credentials)?),
        #[cfg(feature = "nats")]
        Some(("nats" | "tls", _)) => Box::new(nats(url, credentials)?.with_format(format)),
        Some(("jsonl", "-")) => Box::new(Stream::new(std::io::stdout(), format)),
        Some(("jsonl", path)) if path.starts_with("///") => {
            Box::new(Lines::open(Path::new(&path[2..]), format)?)
        }
        Some(("jsonl", _)) => {
            return Err(refused(url, "write jsonl:///directory, or jsonl:- for standard output"));
        }
        _ => return Ok(None),
    }))
}

/// A collector. A line in plain text stays on this machine, unless the URL says that it need not.
fn collector(url: &str, credentials: Option<&Path>) -> Result<Collector> {
    let (scheme, rest) = url.split_once("://").ok_or_else(|| refused(url, "write collect://HOST:PORT"))?;
    let (address, is_insecure) = match rest.split_once('?') {
        None => (rest, false),
        Some((address, "insecure")) => (address, true),
        Some(_) => return Err(refused(url, "the one option of a collector is ?insecure")),
    };
    let address = address.trim_end_matches('/');
    let line = match scheme {
        "collect" if is_insecure => return Err(refused(url, "?insecure is for collect+tcp://")),
        "collect" => Line::Tls {
            authorities: secret("LITEFOOT_COLLECT_CA", credentials)?.map(PathBuf::from),
            certificate: certificate(url, credentials)?,
        },
        _ if is_insecure || is_this_machine(address) => Line::Plain,
        _ => {
            let why = "the token and the rows would travel in plain text: use collect://, or write collect+tcp://HOST:PORT?insecure";
            return Err(refused(url, why));
        }
    };
    let token = secret(TOKEN, credentials)?;
    if token.is_none() && !matches!(line, Line::Tls { certificate: Some(_), .. }) {
        let why = "is not set: it is the collector's, in the environment or in --credentials FILE";
        return Err(refused(url, &format!("{TOKEN} {why}")));
    }
    Ok(Collector::new(address, token.as_deref(), &line)?)
}

/// The files of the certificate that a collector is shown, and of its key.
fn certificate(url: &str, credentials: Option<&Path>) -> Result<Option<(PathBuf, PathBuf)>> {
    let [certificate, key] = CERTIFICATE.map(|name| secret(name, credentials));
    let (certificate, key) = (certificate?, key?);
    let [of_certificate, of_key] = CERTIFICATE;
    if certificate.iter().chain(&key).any(|value| value.contains("-----")) {
        return Err(refused(
            url,
            &format!("{of_certificate} and {of_key} are names of files, not what is in them"),
        ));
    }
    match (certificate, key) {
        (Some(certificate), Some(key)) => Ok(Some((certificate.into(), key.into()))),
        (None, None) => Ok(None),
        (Some(_), None) => Err(refused(url, &format!("{of_certificate} is set, and {of_key} is not"))),
        (None, Some(_)) => Err(refused(url, &format!("{of_key} is set, and {of_certificate} is not"))),
    }
}

fn is_this_machine(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// A stream, and who asks.
#[cfg(feature = "nats")]
fn nats(url: &str, credentials: Option<&Path>) -> Result<Nats> {
    let [password, token, creds] =
        ["NATS_PASSWORD", "NATS_TOKEN", "NATS_CREDS"].map(|name| secret(name, credentials));
    let creds = creds?.map(|path| read_creds(Path::new(&path))).transpose()?;
    Ok(Nats::new(url, Credentials { password: password?, token: token?, creds })?)
}

/// The store of a backup.
#[cfg_attr(not(feature = "cloud"), expect(unused_variables))]
pub fn store(url: &str, credentials: Option<&Path>) -> Result<Arc<dyn Store>> {
    check(url)?;
    match url.split_once("://") {
        Some(("file", path)) if path.starts_with('/') => Ok(Arc::new(Directory::new(&PathBuf::from(path)))),
        Some(("file", _)) => Err(refused(url, "a directory is named by its whole path: file:///backup/app")),
        #[cfg(feature = "cloud")]
        Some(("s3" | "gs" | "az", _)) => Ok(Arc::new(Bucket::open(url, credentials)?)),
        Some((scheme, _)) => {
            Err(refused(url, &format!("{scheme}:// is no destination; there are: {}", schemes())))
        }
        None => Err(refused(url, &format!("is no URL; there are: {}", schemes()))),
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
    fn rows_have_destinations_of_their_own() {
        let place = |url: &str| {
            rows(url, None, LineFormat::default()).map(|found| found.map(|found| found.place().to_owned()))
        };
        assert_eq!(place("postgres://me@host:5/x").unwrap().as_deref(), Some("postgres://host:5/x"));
        assert_eq!(place("jsonl:-").unwrap().as_deref(), Some("standard output"));
        assert_eq!(place("file:///backup").unwrap(), None);
        assert!(place("jsonl:x").is_err() && place("postgres://me:secret@host/x").is_err());
    }

    #[test]
    fn a_collector_is_reached_over_encrypted_lines_or_on_this_machine() {
        use std::os::unix::fs::PermissionsExt;
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "LITEFOOT_COLLECT_TOKEN=hush-hush-hush-hush\n").unwrap();
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o600)).unwrap();
        let place = |url: &str| collector(url, Some(file.path())).map(|found| found.place().to_owned());
        for url in ["collect+tcp://127.0.0.1:5", "collect+tcp://[::1]:5", "collect+tcp://localhost:5/"] {
            assert_eq!(place(url).unwrap(), url.trim_end_matches('/'));
        }
        assert_eq!(place("collect+tcp://centre:5?insecure").unwrap(), "collect+tcp://centre:5");
        for (url, why) in [
            ("collect+tcp://centre:5", "plain text"),
            ("collect+tcp://127.0.0.1.example.com:5", "plain text"),
            ("collect://centre:5?insecure", "?insecure is for"),
            ("collect+tcp://localhost:5?other", "?insecure"),
            ("collect+tcp://localhost:x", "HOST:PORT"),
        ] {
            let error = place(url).unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains("hush"), "{error}");
        }
        assert_eq!(place("collect://centre:5").is_ok(), cfg!(feature = "tls"));
    }

    #[test]
    fn a_certificate_has_a_key_and_both_are_names_of_files() {
        use std::os::unix::fs::PermissionsExt;
        let file = tempfile::NamedTempFile::new().unwrap();
        let asked = |lines: &str| {
            std::fs::write(file.path(), lines).unwrap();
            std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o600)).unwrap();
            collector("collect://centre:5", Some(file.path())).err().unwrap().to_string()
        };
        let missing = if cfg!(feature = "tls") { "/none.pem" } else { "without TLS" };
        for (lines, why) in [
            ("LITEFOOT_COLLECT_CERTIFICATE=/none.pem", "LITEFOOT_COLLECT_KEY is not"),
            ("LITEFOOT_COLLECT_KEY=/none.key", "LITEFOOT_COLLECT_CERTIFICATE is not"),
            ("LITEFOOT_COLLECT_CERTIFICATE=/none.pem\nLITEFOOT_COLLECT_KEY=/none.key", missing),
            ("LITEFOOT_COLLECT_KEY=-----BEGIN PRIVATE KEY----- hush", "names of files"),
            ("", "LITEFOOT_COLLECT_TOKEN is not set"),
        ] {
            let error = asked(lines);
            assert!(error.contains(why) && !error.contains("hush"), "{lines}: {error}");
        }
        // Without TLS there is nobody who could see a certificate.
        std::fs::write(file.path(), "LITEFOOT_COLLECT_CERTIFICATE=/a\nLITEFOOT_COLLECT_KEY=/b\n").unwrap();
        let error = collector("collect+tcp://localhost:5", Some(file.path())).err().unwrap().to_string();
        assert!(error.contains("LITEFOOT_COLLECT_TOKEN is not set"), "{error}");
    }

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
