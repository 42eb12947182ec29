//! Opening a main database: its options, its owner's rights, and the one [`OpenDatabase`] that all paths to it share.

use crate::db::{Companion, VERSIONS_AT};
use crate::error::{Error, Result};
use crate::ffi::api::Api;
use crate::ffi::codes::*;
use crate::files::any_handle::AnyHandle;
use crate::files::group::Met;
use crate::files::group::link::{Link, Opening};
use crate::files::group::{Claim, Joined, Vacancy, may_join};
use crate::files::main_db::MainFile;
use crate::files::requested_file::{is_true, open_mode, read_only as to_read_only};
use crate::files::vfs::{Opened, OpenedFile, Vfs};
use crate::memory::spill_file::MakeSpill;
use crate::open::OpenDatabase;
use crate::open::database::{DatabaseSetup, Host};
use crate::open::sharing::end_lingering;
use crate::open::succession::stay_for_heirs;
use crate::options::{Options, Sharing};
use crate::uri_parameters as parameters;
use litefoot_storage::file::{File, FileKind, OpenMode};
use litefoot_tier::tier_of;
use std::ffi::c_int;
use std::path::Path;
use std::sync::Arc;

impl Vfs {
    /// Opens a main database, or finds it open.
    pub(super) fn open_main(
        &self,
        path: &Path,
        flags: c_int,
        parameters: &[(String, String)],
        api: &'static Api,
    ) -> Result<Opened> {
        let mut options = self.defaults.clone();
        let (mut powersafe_overwrite, mut unlocked) = (true, false);
        parameters::apply(&mut options, parameters)
            .map_err(|why| Error::Refused(format!("{}: {why}; nothing was opened", path.display())))?;
        for (name, value) in parameters {
            unlocked |= matches!(name.as_str(), "nolock" | "immutable") && is_true(value);
            if name == "psow" {
                powersafe_overwrite = value != "0" && value != "off" && value != "no";
            }
        }
        // A handle that only reads still wants write permission where it can be had: without it nobody
        // could keep the writers of other processes out.
        let read_only = flags & SQLITE_OPEN_READONLY != 0;
        let wanted = if read_only { flags & !SQLITE_OPEN_READONLY | SQLITE_OPEN_READWRITE } else { flags };
        self.close_devices(&mut options)?;
        let has_tier = options.tier.is_some();
        let mut vacancy = Vacancy::default();
        let joins = !self.pass_through && may_join(&options, parameters);
        let opening = self.databases.begin_opening(path);
        if joins && !self.is_here(path, wanted, &options)? {
            let met = self.join_group(path, wanted, &options, |is_read_only| Opening {
                path: path.to_owned(),
                flags: wanted,
                options: options.clone(),
                api,
                read_only: read_only || is_read_only,
                powersafe_overwrite,
            })?;
            match met {
                Joined::Member(member, out) => {
                    let flags = if read_only { to_read_only(out) } else { out };
                    return Ok(Opened::new(member, flags));
                }
                Joined::Open(Met::Nobody(found)) => vacancy = found,
                Joined::Open(_) => {}
            }
        }
        let (database, out) = self.database_at(path, wanted, options, api, vacancy.opened)?;
        drop(vacancy.inherited);
        // Another connection of this process may have opened it with other options.
        if joins && may_join(database.db().options(), parameters) {
            self.host_group(&database, vacancy.listener);
        }
        drop(opening);
        let writable = out & SQLITE_OPEN_READWRITE != 0;
        // One that is damaged is refused with the first lock.
        let tiered =
            has_tier || !database.is_multi_process() && !matches!(tier_of(database.db().file()), Ok(None));
        if !self.pass_through {
            self.databases.all_at(&database).iter().for_each(|former| former.give_up_names());
        }
        if !self.pass_through && tiered {
            // The open tells of a problem with the tier, since it has a message. It does not tell of another process
            // that has the database: SQLite's busy handler is asked first.
            match database.own() {
                Ok(()) | Err(Error::Owned { .. } | Error::Busy) => {}
                Err(error) => return Err(error),
            }
        }
        let read_only = read_only || !writable;
        let flags = if read_only { to_read_only(out) } else { out };
        let handle = MainFile::new(database, read_only, powersafe_overwrite, unlocked);
        Ok(Opened { handle: AnyHandle::Main(Box::new(handle)), flags })
    }

    /// The database at a path, and the flags that a handle of it has. Its file may be open already. No other thread opens that path meanwhile.
    fn database_at(
        &self,
        path: &Path,
        wanted: c_int,
        options: Options,
        api: &'static Api,
        opened: Option<(OpenedFile, c_int)>,
    ) -> Result<(Arc<OpenDatabase>, c_int)> {
        let (opened, out) = match opened {
            Some(opened) => opened,
            None => {
                if let Some(found) = self.already_open(path, wanted, &options)? {
                    return Ok(found);
                }
                self.open_file(path, FileKind::Database, wanted)?
            }
        };
        let writable = out & SQLITE_OPEN_READWRITE != 0;
        if self.is_foreign_wal(path, &*opened.file, &options, writable)? {
            return Err(Error::LeftToPlatform);
        }
        let database = self.databases.get_or_insert(opened.file.id(), || {
            OpenDatabase::new(self.setup_of((path, &opened), writable, options, api))
        });
        Ok((database, out))
    }

    /// What a database is made with.
    fn setup_of(
        &self,
        (path, opened): (&Path, &OpenedFile),
        writable: bool,
        options: Options,
        api: &'static Api,
    ) -> DatabaseSetup {
        DatabaseSetup {
            host: (!self.pass_through).then(|| Host { api, vfs: self.name.clone() }),
            medium: self.medium.clone(),
            file: opened.file.clone(),
            path: path.to_owned(),
            options,
            writable,
            // SQLite itself leaves the name of a new database to the file system. An empty file counts
            // as new: whoever created it may have synced nothing.
            holds_back: !self.pass_through,
            pooled: !self.pass_through,
            kept_logs: self.kept_logs.clone(),
            created: !self.pass_through && (opened.created || opened.file.is_empty().unwrap_or(true)),
        }
    }

    /// True if this process has the database open.
    fn is_here(&self, path: &Path, flags: c_int, options: &Options) -> Result<bool> {
        Ok(self.already_open(path, flags, options)?.is_some())
    }

    /// Opens the database of a member's connection that tells of no commits, as a stranger to its group; `None` where SQLite's own VFS would have to.
    pub(crate) fn open_beside_group(&self, link: &Link) -> Result<Option<MainFile>> {
        let opening = &link.opening;
        let _one = self.databases.begin_opening(&opening.path);
        let flags = opening.flags_again();
        let (database, out) =
            match self.database_at(&opening.path, flags, opening.options.clone(), opening.api, None) {
                Err(Error::LeftToPlatform) => return Ok(None),
                found => found?,
            };
        let read_only = opening.read_only || out & SQLITE_OPEN_READWRITE == 0;
        Ok(Some(MainFile::new(database, read_only, opening.powersafe_overwrite, false)))
    }

    /// Opens the database of a member's connection as its next owner, by that name. No other thread opens that path meanwhile.
    pub(in crate::files) fn own_for_group(
        &self,
        opening: &Opening,
        flags: c_int,
        vacancy: Vacancy,
    ) -> Result<Arc<OpenDatabase>> {
        let options = opening.options.clone();
        let (database, _) = self.database_at(&opening.path, flags, options, opening.api, vacancy.opened)?;
        self.host_group(&database, None);
        if let Some(listener) = vacancy.listener {
            database.serve_at(listener);
        }
        Ok(database)
    }

    /// The same by the open file of an owner that has died.
    pub(in crate::files) fn own_inherited(
        &self,
        opening: &Opening,
        file: Arc<dyn File>,
        claim: &Claim,
    ) -> Result<Arc<OpenDatabase>> {
        let (opened, flags) = (OpenedFile { file, created: false }, opening.flags_again());
        let options = opening.options.clone();
        let (database, _) =
            self.database_at(&opening.path, flags, options, opening.api, Some((opened, flags)))?;
        self.host_group(&database, None);
        let (number, marks) = claim.marks();
        database.succeed(number, marks)?;
        // Also where its own transaction ends before others have come, and no connection of this process has the database.
        stay_for_heirs(&database);
        Ok(database)
    }

    /// The same for no connection: nobody else in this process finds the database that is recovered so.
    pub(in crate::files) fn recover_inherited(
        &self,
        opening: &Opening,
        file: Arc<dyn File>,
        claim: &Claim,
    ) -> Result<OpenDatabase> {
        let opened = OpenedFile { file, created: false };
        let setup = self.setup_of((&opening.path, &opened), true, opening.options.clone(), opening.api);
        let database = OpenDatabase::new(setup);
        let (number, marks) = claim.marks();
        database.succeed(number, marks)?;
        Ok(database)
    }

    /// The database at a path where this process has it open, and the flags that a handle has by today's rights. The file
    /// is not opened once more: to its lease that would be somebody else.
    fn already_open(
        &self,
        path: &Path,
        flags: c_int,
        options: &Options,
    ) -> Result<Option<(Arc<OpenDatabase>, c_int)>> {
        let exists = open_mode(flags) != OpenMode::CreateNew;
        // What cannot be looked up cannot be opened, and that says why.
        let Ok(Some(id)) = self.medium.unlinked_identity(path) else { return Ok(None) };
        let Some(database) = self.databases.get(id).filter(|_| exists) else { return Ok(None) };
        // One without connections has the options and the path of its last opening, unless others may come to it.
        let is_unused = !database.handles().any() && database.heirs_may_come().is_none();
        if is_unused && (database.db().options() != options || database.db().path() != path) {
            self.databases.forget(&database);
            end_lingering(&database);
            return Ok(None);
        }
        let info = self.medium.info(path)?.filter(|info| info.id == id && info.readable);
        let found = info.map(|info| {
            let writable = info.writable && database.db().writable();
            (database, if writable { flags } else { to_read_only(flags) })
        });
        Ok(found)
    }

    /// True if only SQLite's own protocol can read a database: it is in WAL mode, and the database or its log is not
    /// writable. An owner's lock needs write permission, and without an owner the wal-index must be one that other
    /// processes see.
    fn is_foreign_wal(
        &self,
        path: &Path,
        file: &dyn File,
        options: &Options,
        writable: bool,
    ) -> Result<bool> {
        if self.pass_through || options.tier.is_some() || self.databases.has(file.id()) {
            return Ok(false);
        }
        let log = self.medium.info(&Companion::Wal.of(path))?;
        let is_foreign = if writable {
            log.is_some_and(|log| !log.writable)
        } else {
            let mut versions = [0; 2];
            log.is_some_and(|log| log.len > 0)
                || (file.read_at(&mut versions, VERSIONS_AT as u64).is_ok() && versions == [2, 2])
        };
        // Transactions that exist only as statements are litefoot's to replay, or to refuse.
        Ok(is_foreign && self.medium.info(&Companion::CommitLog.of(path))?.is_none_or(|log| log.len == 0))
    }

    /// Checks the options of a tier, and lets the paths of devices survive a change of the directory.
    fn close_devices(&self, options: &mut Options) -> Result<()> {
        if let Some(commit_log_path) = &mut options.commit_log_path {
            *commit_log_path = self.medium.absolute(commit_log_path)?.path;
        }
        let Some(tier) = &options.tier else { return Ok(()) };
        if self.pass_through || options.sharing == Sharing::Passthrough {
            return Err(Error::Refused(format!(
                "{}: a tier needs a database that one process owns: leave sharing=passthrough out; nothing was opened",
                tier.display()
            )));
        }
        options.tier = Some(self.medium.absolute(tier)?.path);
        Ok(())
    }

    /// In a forked child: the database of an inherited connection, opened by this process.
    pub(crate) fn open_again(&self, parents: &OpenDatabase) -> Result<Arc<OpenDatabase>> {
        let (path, id) = (parents.db().path(), parents.db().file().id());
        let _opening = self.databases.begin_opening(path);
        if self.medium.unlinked_identity(path)? == Some(id)
            && let Some(database) = self.databases.get(id)
        {
            return Ok(database);
        }
        let mode = if parents.db().writable() { OpenMode::ReadWrite } else { OpenMode::ReadOnly };
        let file = self.medium.open(path, FileKind::Database, mode)?;
        if file.id() != id {
            return Err(Error::Refused(format!(
                "{}: this connection was opened before fork(), and another file has taken the place of the database since; \
                 open it again",
                path.display()
            )));
        }
        Ok(self.databases.get_or_insert(id, || {
            OpenDatabase::new(DatabaseSetup {
                host: parents.host(),
                medium: self.medium.clone(),
                file,
                path: path.to_owned(),
                options: parents.db().options().clone(),
                writable: parents.db().writable(),
                holds_back: !self.pass_through,
                pooled: !self.pass_through,
                kept_logs: self.kept_logs.clone(),
                created: false,
            })
        }))
    }

    /// Where a log of the database that is opened again has its spill from.
    pub(crate) fn provide_spill(&self, database: &OpenDatabase) -> MakeSpill {
        let files = self.temporary_files_of(database);
        let spill = move || -> MakeSpill {
            let files = files.clone();
            Box::new(move || files.open())
        };
        let made = spill();
        database.handover().set_spill_source(Box::new(spill));
        made
    }
}
