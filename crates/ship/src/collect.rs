//! The collector of a fleet: from what people say to what `litefoot_rowsink::collect` does.

use crate::credentials::secret;
use crate::destination::{SCHEMA, check};
use crate::{Error, Result};
pub use litefoot_rowsink::collect::Server;
use litefoot_rowsink::collect::Settings;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// The variable, or the line of a file, with the token that devices and collector share.
pub const TOKEN: &str = "LITEFOOT_COLLECT_TOKEN";

/// What a collector is to do.
pub struct Plan {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The database: `postgres://user@host/database`.
    pub to: String,
    /// A file with credentials; without one they are in the environment.
    pub credentials: Option<PathBuf>,
    /// The files of the certificate and of its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// The file of the authorities that sign the devices' certificates. With one, a token is wanted only where it is set.
    pub client_authorities: Option<PathBuf>,
    /// True where devices of other machines may come over lines that are not encrypted.
    pub is_insecure: bool,
    /// Most connections at one time.
    pub connections: usize,
}

/// Starts a collector.
///
/// # Errors
/// The settings, the address, the certificate or the database cannot be used.
pub fn start(plan: Plan, say: Arc<dyn Fn(&str) + Send + Sync>) -> Result<Server> {
    let refused = |why: &str| Error::Refused { place: plan.listen.to_string(), why: why.to_owned() };
    if !matches!(plan.to.split_once(':'), Some(("postgres" | "postgresql", _))) {
        return Err(refused("a collector writes to PostgreSQL: --to postgres://USER@HOST/DATABASE"));
    }
    check(&plan.to)?;
    if plan.certificate.is_none() && !plan.is_insecure && !plan.listen.ip().is_loopback() {
        let why = "other machines would send the token and the rows in plain text: give --certificate and --key, or say --insecure";
        return Err(refused(why));
    }
    let token = secret(TOKEN, plan.credentials.as_deref())?;
    if token.is_none() && plan.client_authorities.is_none() {
        let why =
            "is not set: devices and collector share a token, or devices have certificates (--client-ca)";
        return Err(refused(&format!("{TOKEN} {why}")));
    }
    let settings = Settings {
        listen: plan.listen,
        password: secret("PGPASSWORD", plan.credentials.as_deref())?,
        url: plan.to,
        schema: SCHEMA.to_owned(),
        token,
        certificate: plan.certificate,
        client_authorities: plan.client_authorities,
        connections: plan.connections,
        say,
    };
    Ok(Server::start(settings)?)
}
