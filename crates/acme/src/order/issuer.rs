//! A CA and the account there.

use std::cell::RefCell;
use std::sync::Arc;

use freerun_conf::text_of_os;
use instant_acme::{Account, AccountCredentials, ExternalAccountKey, Key, NewAccount};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::sync::Mutex;

use super::Failure;
use crate::account_key::account_key;
use crate::client::Client;
use crate::host::{Host, Level};
use crate::schedule::{Backoff, jitter};
use crate::settings::{AccountKey, IssuerSettings};
use crate::state::{self, AccountFile, MAX_ACCOUNT, account_name};

/// A CA and the account there, which all certificates of the CA share.
pub(crate) struct Issuer {
    pub(super) host: Arc<dyn Host>,
    settings: Arc<IssuerSettings>,
    /// The account. Whoever makes it holds the lock meanwhile, so that only one is made.
    account: Mutex<AccountState>,
    /// Failures of reaching the CA and of the account, and the text of the last; all certificates wait for these.
    trouble: RefCell<(Backoff, String)>,
}

/// Facts about the account.
#[derive(Default)]
struct AccountState {
    file: Option<AccountFile>,
    /// The number of accounts that were dropped before.
    dropped: u64,
}

impl Issuer {
    pub(crate) fn new(host: Arc<dyn Host>, settings: IssuerSettings) -> Issuer {
        Issuer { host, settings: Arc::new(settings), account: Mutex::default(), trouble: RefCell::default() }
    }

    pub(crate) fn settings(&self) -> &Arc<IssuerSettings> {
        &self.settings
    }

    /// A client for one conversation.
    pub(super) fn client(&self) -> Client {
        Client::new(self.host.clone(), self.settings.clone())
    }

    /// The account: the known one, the account on disk, or a new one. The number is for
    /// [`drop_account`](Issuer::drop_account).
    pub(super) async fn account(&self, client: &Client) -> Result<(Account, u64), Failure> {
        let mut known = self.account.lock().await;
        let now = self.host.now();
        let (until, text) = {
            let mut trouble = self.trouble.borrow_mut();
            (trouble.0.end(now), trouble.1.clone())
        };
        if until > now {
            return Err(Failure { waits_until: Some(until), ..Failure::new(text) });
        }
        let made = self.restore_or_make(client, &mut known).await;
        // What there is to do about a lost account was done here.
        let made = made.map_err(|failure| Failure { account_gone: false, ..failure });
        let made = made.map(|account| (account, known.dropped));
        let mut trouble = self.trouble.borrow_mut();
        match &made {
            Ok(_) => *trouble = Default::default(),
            Err(failure) => {
                trouble.0.failed(self.host.now(), failure.retry_after, jitter());
                trouble.1.clone_from(&failure.text);
            }
        }
        made
    }

    async fn restore_or_make(&self, client: &Client, known: &mut AccountState) -> Result<Account, Failure> {
        if let Err((directive, why)) = self.settings.check() {
            return Err(Failure::new(format!("\"{directive}\" {why}")));
        }
        let builder = Account::builder_with_http(Box::new(client.clone()));
        let failure = |error: instant_acme::Error| self.failure(&error, client);
        if known.file.is_none() {
            known.file = self.stored();
        }
        let Some(file) = &mut known.file else {
            let (account, credentials) = self.make(client).await?;
            let file = AccountFile {
                uri: self.settings.uri.clone(),
                contacts: self.settings.contacts.clone(),
                external_account: self.settings.external_account.as_ref().map(|external| external.kid.clone()),
                credentials,
            };
            self.store(&file);
            known.file = Some(file);
            self.log(Level::Notice, &format!("account {} is used", account.id()));
            return Ok(account);
        };
        // The credentials cannot be cloned, but written and read.
        let copy = AccountFile::parse(file.to_text().as_bytes());
        let credentials = copy.ok_or_else(|| Failure::new("the account cannot be read again"))?.credentials;
        let account = builder.from_credentials(credentials).await.map_err(failure)?;
        if file.contacts != self.settings.contacts {
            let contacts: Vec<_> = self.settings.contacts.iter().map(String::as_str).collect();
            match account.update_contacts(&contacts).await {
                Ok(()) => {
                    file.contacts.clone_from(&self.settings.contacts);
                    self.store(file);
                }
                Err(error) => {
                    let failure = failure(error);
                    if failure.account_gone && self.forget(known) {
                        return Err(failure.with("a new account is made with the next attempt"));
                    }
                    self.log(Level::Warn, &format!("the account's contacts were not changed: {}", failure.text));
                }
            }
        }
        Ok(account)
    }

    /// Makes an account, or finds the one of the administrator's key.
    async fn make(&self, client: &Client) -> Result<(Account, AccountCredentials), Failure> {
        let settings = &self.settings;
        let contacts: Vec<_> = settings.contacts.iter().map(String::as_str).collect();
        let builder = || Account::builder_with_http(Box::new(client.clone()));
        let failure = |error| self.failure(&error, client);
        let terms = "without \"accept_terms_of_service\" no account is made";
        match &settings.account_key {
            AccountKey::Generate(_) => {
                let external = settings.external_account.as_ref();
                let external = external.map(|external| ExternalAccountKey::new(external.kid.clone(), &external.key));
                let new = NewAccount {
                    contact: &contacts,
                    terms_of_service_agreed: settings.accepts_terms,
                    only_return_existing: false,
                };
                builder()
                    .create(&new, settings.uri.clone(), external.as_ref())
                    .await
                    .map_err(|error| failure(error).with(if settings.accepts_terms { "" } else { terms }))
            }
            AccountKey::Pem(pem) => {
                let der = account_key(pem).ok_or_else(|| Failure::new("the account's key cannot be used"))?;
                let der = PrivatePkcs8KeyDer::from(der.to_vec());
                let key = Key::from_pkcs8_der(der.clone_key()).map_err(failure)?;
                let key = (key, PrivateKeyDer::Pkcs8(der));
                // The library says that the terms are accepted whenever it makes an account, so it may not without.
                let made = if settings.accepts_terms {
                    builder().create_from_key(key, settings.uri.clone()).await
                } else {
                    builder().from_key(key, settings.uri.clone()).await
                };
                let made = made.map_err(|error| {
                    let failure = failure(error).with(if settings.accepts_terms { "" } else { terms });
                    let closed = failure.account_gone && settings.accepts_terms;
                    failure.with(if closed { "the CA has closed the account of this \"account_key\"" } else { "" })
                })?;
                if !contacts.is_empty() {
                    made.0.update_contacts(&contacts).await.map_err(failure)?;
                }
                Ok(made)
            }
        }
    }

    /// The failure of a request that makes an account or an order. There the answer `unauthorized` means that the
    /// account is closed, and another one is made. An account that belongs to somebody elsewhere cannot always be made
    /// again. So it is given up only where the CA says that it is not there.
    pub(super) fn failure(&self, error: &instant_acme::Error, client: &Client) -> Failure {
        match self.settings.external_account {
            Some(_) => Failure::of(error, client.notes()),
            None => Failure::of_account(error, client.notes()),
        }
    }

    /// Drops the account of this number, which the CA does not know any more, unless another order has done so: what is
    /// known then may be a new one already. Says whether the next attempt may have another one.
    pub(super) async fn drop_account(&self, number: u64) -> bool {
        let mut known = self.account.lock().await;
        if known.dropped == number {
            return self.forget(&mut known);
        }
        self.can_have_another()
    }

    /// Drops the account. Its file, which has the only copy of its key, is kept under another name until the next
    /// account is dropped. The CA, or whoever answers in its place, may have been wrong.
    fn forget(&self, known: &mut AccountState) -> bool {
        known.file = None;
        known.dropped += 1;
        if let Some(folder) = &self.settings.state_path
            && let Err(error) = state::set_aside(folder, &account_name(&self.settings.uri))
        {
            self.log(Level::Warn, &format!("the account's file cannot be set aside: {error}"));
        }
        self.can_have_another()
    }

    /// Whether an account that is lost can be replaced.
    fn can_have_another(&self) -> bool {
        matches!(self.settings.account_key, AccountKey::Generate(_))
    }

    /// The account on disk, if the settings are about it.
    fn stored(&self) -> Option<AccountFile> {
        let folder = self.settings.state_path.as_ref()?;
        let name = account_name(&self.settings.uri);
        let bytes = match state::read(folder, &name, MAX_ACCOUNT) {
            Ok(bytes) => bytes?,
            Err(error) => {
                self.log(Level::Warn, &format!("{name} in {} cannot be read: {error}", text_of_os(&folder)));
                return None;
            }
        };
        let Some(file) = AccountFile::parse(&bytes) else {
            self.log(Level::Warn, &format!("{name} in {} is damaged and not used", text_of_os(&folder)));
            return None;
        };
        let external = self.settings.external_account.as_ref().map(|external| external.kid.as_str());
        let own_key = match &self.settings.account_key {
            AccountKey::Generate(_) => true,
            AccountKey::Pem(pem) => {
                let stored = file.credentials.private_key().secret_pkcs8_der();
                account_key(pem).is_some_and(|key| key.as_slice() == stored)
            }
        };
        let same = file.uri == self.settings.uri && file.external_account.as_deref() == external && own_key;
        same.then_some(file)
    }

    fn store(&self, file: &AccountFile) {
        let Some(folder) = &self.settings.state_path else { return };
        if let Err(error) = state::replace(folder, &account_name(&self.settings.uri), &file.to_text()) {
            let line = format!("the account cannot be written to {}: {error}", text_of_os(&folder));
            self.log(Level::Error, &line);
        }
    }

    /// A line of the log about the CA.
    pub(crate) fn log(&self, level: Level, line: &str) {
        self.host.log(level, &format!("acme issuer \"{}\": {line}", self.settings.name));
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use freerun_testkit::TempDir;

    use super::*;
    use crate::host::{Challenge, Pair};
    use crate::settings::{CertificateSettings, ExternalAccount};

    struct Nobody;

    impl Host for Nobody {
        fn log(&self, _: Level, _: &str) {}

        fn http_client(&self) -> Option<freerun_serve::http_client::RemoteClient> {
            None
        }

        fn publish(&self, _: &Challenge) -> Result<(), String> {
            Ok(())
        }

        fn withdraw(&self, _: &Challenge) {}

        fn issued(&self, _: &CertificateSettings, _: &Pair) {}
    }

    fn settings(state: Option<&Path>) -> IssuerSettings {
        let state_path = state.map(Path::to_path_buf);
        IssuerSettings { state_path, ..IssuerSettings::new("ca", "https://ca.example/directory") }
    }

    fn file(account: &str) -> AccountFile {
        let text = format!(
            r#"{{"uri":"https://ca.example/directory","contacts":[],"external_account":null,
                "credentials":{{"id":"https://ca.example/{account}","key_pkcs8":"MIGH","directory":null}}}}"#
        );
        AccountFile::parse(text.as_bytes()).expect("a whole file")
    }

    #[test]
    fn an_account_that_belongs_to_another_one_is_not_given_up_easily() {
        let gone = |external: Option<ExternalAccount>, kind: &str| {
            let issuer = IssuerSettings { external_account: external, ..settings(None) };
            let issuer = Issuer::new(Arc::new(Nobody), issuer);
            let problem = format!(r#"{{"type":"urn:ietf:params:acme:error:{kind}"}}"#);
            let problem = serde_json::from_str(&problem).expect("a problem document");
            issuer.failure(&instant_acme::Error::Api(problem), &issuer.client()).account_gone
        };
        let external = || Some(ExternalAccount { kid: "k".to_owned(), key: vec![1].into() });
        assert!(gone(None, "unauthorized") && gone(None, "accountDoesNotExist"));
        assert!(!gone(external(), "unauthorized") && gone(external(), "accountDoesNotExist"));
        assert!(!gone(None, "rateLimited"));
    }

    #[tokio::test]
    async fn orders_that_fail_together_drop_one_account() {
        let state = TempDir::new("state");
        let issuer = Issuer::new(Arc::new(Nobody), settings(Some(state.path())));
        let account = |issuer: &Issuer| issuer.stored().map(|file| file.to_text().to_string());
        issuer.store(&file("old"));
        // Two orders have begun with the old account.
        assert!(issuer.drop_account(0).await);
        assert_eq!(account(&issuer), None);
        let aside = state.path().join(account_name("https://ca.example/directory") + ".old");
        let aside = || std::fs::read_to_string(&aside).expect("its key is kept");
        assert!(aside().contains("/old"));
        // The first one has a new account by now.
        issuer.store(&file("new"));
        issuer.account.lock().await.file = Some(file("new"));
        assert!(issuer.drop_account(0).await);
        assert!(account(&issuer).is_some_and(|text| text.contains("/new")));
        assert!(issuer.account.lock().await.file.is_some());
        assert!(issuer.drop_account(1).await);
        assert_eq!(account(&issuer), None);
        assert!(issuer.account.lock().await.file.is_none());
        assert!(aside().contains("/new"));
    }
}
