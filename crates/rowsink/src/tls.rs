//! Encrypted lines, by rustls.

use crate::{Error, Result};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{AlertDescription, ClientConfig, RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// The files of a certificate and of its key.
type Files = (PathBuf, PathBuf);

/// A file that is not read. The parser's own words quote its lines, which may be a key's.
fn not_read(path: &Path, what: &str, error: &pem::Error) -> Error {
    match error {
        pem::Error::Io(error) => Error::local(path, error),
        _ => Error::local(path, format!("has no {what} in PEM")),
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read =
        CertificateDer::pem_file_iter(path).and_then(|all| all.collect::<std::result::Result<Vec<_>, _>>());
    let found = read.map_err(|error| not_read(path, "certificate", &error))?;
    if found.is_empty() { Err(not_read(path, "certificate", &pem::Error::NoItemsFound)) } else { Ok(found) }
}

/// A certificate, those of its authorities, and its key.
fn identity((certificate, key): &Files) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
    let chain = certificates(certificate)?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| not_read(key, "private key", &error))?;
    Ok((chain, key))
}

/// A certificate and a key that do not fit each other, or that rustls cannot use.
fn unfit((certificate, key): &Files, error: &rustls::Error) -> Error {
    Error::local(certificate, format!("cannot be used with its key {}: {error}", key.display()))
}

/// The authorities of a file.
fn authorities(path: &Path) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| Error::local(path, error))?;
    }
    Ok(roots)
}

/// The side of a collector. With authorities of clients, each connection has to show a certificate of one.
pub(crate) fn acceptor(own: &Files, client_authorities: Option<&Path>) -> Result<TlsAcceptor> {
    let (chain, key) = identity(own)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| unfit(own, &error))?;
    let builder = match client_authorities {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let roots = Arc::new(authorities(path)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| Error::local(path, error))?)
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|error| unfit(own, &error))?;
    if client_authorities.is_some() {
        // A session that is resumed shows no certificate, so one that has expired meanwhile would go on.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
    }
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The subject of the certificate that a device has shown, as it is encoded.
pub(crate) fn subject(connection: &rustls::ServerConnection) -> Option<Vec<u8>> {
    let shown = connection.peer_certificates()?.first()?;
    Some(webpki::EndEntityCert::try_from(shown).map_or_else(|_| Vec::new(), |shown| shown.subject().to_vec()))
}

/// The side that asks: trusts the authorities of a file, or, without one, of the system. It shows its own certificate, where it has one.
pub(crate) fn client(trusted: Option<&Path>, own: Option<&Files>) -> Result<ClientConfig> {
    let roots = match trusted {
        Some(path) => authorities(path)?,
        None => {
            let mut roots = RootCertStore::empty();
            // Those that cannot be read are as good as not there.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            roots
        }
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Refused { place: "TLS".to_owned(), why: error.to_string() })?
        .with_root_certificates(roots);
    let Some(own) = own else { return Ok(builder.with_no_client_auth()) };
    let (chain, key) = identity(own)?;
    builder.with_client_auth_cert(chain, key).map_err(|error| unfit(own, &error))
}

/// The error of rustls in an error, or in one of its causes.
fn cause<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a rustls::Error> {
    let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    inner
        .and_then(|inner| inner.downcast_ref::<rustls::Error>())
        .or_else(|| error.downcast_ref::<rustls::Error>())
        .or_else(|| error.source().and_then(cause))
}

/// The words for a certificate of the other side that this one refuses.
pub(crate) fn wrong_certificate(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    match cause(error)? {
        error @ rustls::Error::InvalidCertificate(_) => Some(format!("TLS: {error}")),
        rustls::Error::NoCertificatesPresented => Some("TLS: no certificate was shown".to_owned()),
        _ => None,
    }
}

/// The words, on a device, for a certificate that one of the two sides refuses. It stays so.
pub(crate) fn refusal(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let rustls::Error::AlertReceived(alert) = cause(error)? else { return wrong_certificate(error) };
    match alert {
        AlertDescription::CertificateRequired => Some(
            "TLS: the collector wants a certificate of this device (LITEFOOT_COLLECT_CERTIFICATE)".to_owned(),
        ),
        AlertDescription::UnknownCA
        | AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateUnknown
        | AlertDescription::AccessDenied => {
            Some(format!("TLS: the collector refuses the certificate of this device: {alert:?}"))
        }
        _ => None,
    }
}
