//! Tables of PostgreSQL.
//!
//! ```sql
//! litefoot.source(source uuid, epoch bigint, seq bigint, token bigint)   -- the batch that each source has brought last
//! litefoot.source_table(source uuid, name text, parked text)             -- its tables, and why one is left out
//! public.reading(_source uuid, _rowid bigint, …, _misfit jsonb, PRIMARY KEY(_source, _rowid))
//! ```
//! Devices share the tables. A table without rowids has `_key bytea` in place of `_rowid`: the primary key as SQLite's changeset writes its values.
//!
//! # Exactly once
//! One transaction moves the row of `litefoot.source` from the batch before to this one, and takes the rows. Where no row moves, nothing is
//! taken, and the caller hears of the position.
//!
//! # Never lost, never a stop
//! A value that its column cannot hold is NULL there, and stands in `_misfit` by the column's name. New columns are added. A table that was renamed, or
//! whose columns were, is parked: its rows wait for `resync`, and those of all others go on.
//!
//! # Secrets
//! The password is in the connection's settings only. [`Destination::place`] and errors have the host, the port and the database.
//!
//! | file | decides |
//! |---|---|
//! | `fit` | which type a column gets, and whether a value fits |
//! | `table` | the statements for a table |
//! | `apply` | the transaction of a batch |

mod apply;
mod fit;
mod table;

use crate::{Applied, Batch, Destination, Error, Origin, Position, Result};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_postgres::config::Host;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls};

/// The longest that a server may take to answer.
const ANSWER: Duration = Duration::from_secs(60);
const CONNECT: Duration = Duration::from_secs(10);

/// A database of PostgreSQL.
pub struct Postgres {
    config: Config,
    place: String,
    schema: String,
    answer: Duration,
    runtime: Runtime,
    client: Option<Client>,
}

impl Postgres {
    /// A destination by its URL, `postgres://user:password@host/database`; rows go into tables of `schema`. Nothing is connected yet.
    ///
    /// # Errors
    /// The URL is none of PostgreSQL's.
    pub fn new(url: &str, schema: &str) -> Result<Postgres> {
        // The parser's own error may repeat the URL, and with it the password.
        let refused = || Error::Refused {
            place: "postgres://…".to_owned(),
            why: "the URL cannot be read: write postgres://USER@HOST:PORT/DATABASE".to_owned(),
        };
        let mut config: Config = url.parse().map_err(|_| refused())?;
        config.connect_timeout(CONNECT).keepalives_idle(CONNECT).application_name("litefoot ship");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|error| Error::Refused { place: place(&config), why: error.to_string() })?;
        Ok(Postgres {
            place: place(&config),
            config,
            schema: schema.to_owned(),
            answer: ANSWER,
            runtime,
            client: None,
        })
    }

    /// Connects with a password, which is not in the URL.
    #[must_use]
    pub fn with_password(mut self, password: Option<&str>) -> Postgres {
        if let Some(password) = password {
            self.config.password(password);
        }
        self
    }

    /// Waits at most so long for an answer.
    #[must_use]
    pub fn with_answer_within(mut self, answer: Duration) -> Postgres {
        self.answer = answer;
        self
    }

    /// Runs a conversation with the server. Where it fails, its connection is given up: its state is unknown.
    fn converse<T>(
        &mut self,
        talk: impl AsyncFnOnce(&mut Client) -> std::result::Result<T, tokio_postgres::Error>,
    ) -> Result<T> {
        let (config, known, answer) = (&self.config, self.client.take(), self.answer);
        let outcome = self.runtime.block_on(async {
            tokio::time::timeout(answer, async {
                let mut client = match known.filter(|client| !client.is_closed()) {
                    Some(client) => client,
                    None => connect(config).await?,
                };
                let found = talk(&mut client).await?;
                Ok((client, found))
            })
            .await
        });
        match outcome {
            Ok(Ok((client, found))) => {
                self.client = Some(client);
                Ok(found)
            }
            Ok(Err(error)) => Err(self.of(&error)),
            Err(_) => Err(Error::Unreachable {
                place: self.place.clone(),
                why: format!("no answer for {} seconds", answer.as_secs()),
            }),
        }
    }

    fn of(&self, error: &tokio_postgres::Error) -> Error {
        let (place, why) = (self.place.clone(), explain(error));
        if is_transient(error) { Error::Unreachable { place, why } } else { Error::Refused { place, why } }
    }
}

async fn connect(config: &Config) -> std::result::Result<Client, tokio_postgres::Error> {
    let (client, connection) = config.connect(NoTls).await?;
    // It ends with its client.
    tokio::spawn(connection);
    client.batch_execute(apply::SETUP).await?;
    Ok(client)
}

/// The destination without secrets.
fn place(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        Some(Host::Unix(path)) => path.display().to_string(),
        None => "localhost".to_owned(),
    };
    let port = config.get_ports().first().map_or_else(String::new, |port| format!(":{port}"));
    format!("postgres://{host}{port}/{}", config.get_dbname().unwrap_or_default())
}

/// What the server said, without what was sent to it.
fn explain(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => format!("{} ({})", said.message(), said.code().code()),
        None => {
            let cause =
                std::error::Error::source(error).map_or_else(String::new, |cause| format!(": {cause}"));
            format!("{error}{cause}")
        }
    }
}

/// Whether waiting may help: the server was lost, is starting, is full or busy; it has not said no.
fn is_transient(error: &tokio_postgres::Error) -> bool {
    let Some(code) = error.code() else { return true };
    let classes = ["08", "40", "53", "55", "57", "58", "XX"];
    let is_busy = classes.iter().any(|class| code.code().starts_with(class));
    // Two sources that make one table at the same time.
    is_busy
        || [SqlState::UNIQUE_VIOLATION, SqlState::DUPLICATE_TABLE, SqlState::DUPLICATE_SCHEMA].contains(code)
}

impl Destination for Postgres {
    fn place(&self) -> &str {
        &self.place
    }

    fn position(&mut self, origin: &Origin) -> Result<Option<Position>> {
        let origin = *origin;
        self.converse(async |client| apply::position(client, &origin).await)
    }

    fn apply(&mut self, batch: &Batch) -> Result<Applied> {
        let schema = self.schema.clone();
        self.converse(async |client| apply::apply(client, &schema, batch).await)
    }
}
