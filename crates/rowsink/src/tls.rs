//! Encrypted lines, by rustls.

use crate::{Error, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read =
        CertificateDer::pem_file_iter(path).and_then(|all| all.collect::<std::result::Result<Vec<_>, _>>());
    match read {
        Ok(found) if found.is_empty() => Err(Error::local(path, "has no certificate in PEM")),
        found => found.map_err(|error| Error::local(path, format!("is no certificate in PEM: {error}"))),
    }
}

/// The side of a collector.
pub(crate) fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor> {
    let chain = certificates(certificate)?;
    let key_der = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| Error::local(key, format!("is no private key in PEM: {error}")))?;
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key_der))
        .map_err(|error| Error::local(certificate, format!("cannot be used with its key: {error}")))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// The side that asks: trusts the authorities of a file, or, without one, of the system.
pub(crate) fn client(authorities: Option<&Path>) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    match authorities {
        Some(path) => {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| Error::local(path, error))?;
            }
        }
        None => {
            // Those that cannot be read are as good as not there.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Refused { place: "TLS".to_owned(), why: error.to_string() })?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// True where the other side's certificate is refused, which stays so: an error, or one of its causes.
pub(crate) fn is_wrong_certificate(error: &(dyn std::error::Error + 'static)) -> bool {
    let is_wrong = |error: &rustls::Error| matches!(error, rustls::Error::InvalidCertificate(_));
    let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    let inner = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>());
    inner.is_some_and(is_wrong)
        || error.downcast_ref::<rustls::Error>().is_some_and(is_wrong)
        || error.source().is_some_and(is_wrong_certificate)
}
