//! Short names of receivers: the file `hosts.toml` of the user, in which each has a table with an address and parameters.

use super::Config;
use crate::transfer::access::file;
use crate::transfer::error::{TransferError, is_denied, of_key};
use crate::transfer::{Peer, RemoteFolder};
use crate::{Error, Failure};
use linecard_config::{Document, Parameter, Parsed, parameters};
use linecard_transfer_net::keys::read_trusted;
use serde_json::{Map, Value};
use std::path::PathBuf;

/// The file among the settings of the user.
const FILE: &str = "hosts.toml";
/// The key of an entry that is no parameter.
const ADDRESS: &str = "address";
/// Parameters that are given with each command.
const NOT_IN_ENTRIES: [&str; 3] = ["inputs", "peer", "hosts"];
/// Parameters about keys, which a receiver that is started by a login does not use; those of the section too.
const ABOUT_KEYS: [&str; 4] = ["known_peers", "pair", "accept_new", "strict"];
const ACCESS: &str = "access.";

/// A configuration with the entry of its receiver.
#[derive(Debug)]
pub struct Resolved {
    /// The configuration; its peer has the address of the entry.
    pub config: Config,
    /// Where each value stands; of a configuration without an entry and a document, nothing.
    pub document: Document,
    /// A line about the entry for the user, if there is one.
    pub line: Option<String>,
}

impl Config {
    /// This configuration, read from `document`, with the values that the entry of its receiver adds to those that are
    /// given. Without a document, values that differ from their default are given.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, that others can change, or with a value that is refused.
    pub fn with_host(&self, document: Option<&Document>) -> Result<Resolved, Error> {
        let unchanged = || Resolved {
            config: self.clone(),
            document: document.cloned().unwrap_or_default(),
            line: None,
        };
        let Some(hosts) = self.read_hosts(document)? else { return Ok(unchanged()) };
        let name = match &self.peer.0 {
            Peer::Listening { host, .. } | Peer::Started(RemoteFolder { host, .. }) => host,
        };
        let Some(entry) = Entry::find(&hosts, name)? else { return Ok(unchanged()) };
        let given = document.map_or_else(|| self.differing(), |document| Ok(document.clone()))?;
        let is_used = self.uses(&given)?;
        let document = given.over(&entry.values, &is_used)?;
        let peer = entry.peer(&self.peer.0);
        let merged: Self = document.config()?;
        let config = Self {
            inputs: self.inputs.clone(),
            peer: Parsed(peer),
            pair: self.pair.or(merged.pair),
            ..merged
        };
        let line = Some(entry.line(&config.peer.0, is_used));
        Ok(Resolved { config, document, line })
    }

    /// The file of hosts. It may be missing, unless it was named.
    fn read_hosts(&self, document: Option<&Document>) -> Result<Option<Document>, Error> {
        let given = self.hosts.as_deref().map(|path| match (document, path.to_str()) {
            (Some(document), Some(name)) => document.path_of("hosts", name),
            _ => path.into(),
        });
        // Without a folder of settings, there is no such file.
        let Ok(path) = file(given.as_deref(), FILE, "--hosts") else { return Ok(None) };
        let read = match read_trusted(&path) {
            // Settings of another user, as after `sudo -u`.
            Err(error) if given.is_none() && is_denied(&error) => return Ok(None),
            read => read.map_err(of_key)?,
        };
        match read {
            Some(text) => Ok(Some(Document::of_text(path, text)?)),
            None if given.is_some() => Err(TransferError::NoHosts { path }.into()),
            None => Ok(None),
        }
    }

    /// The values that differ from their defaults, as a document.
    fn differing(&self) -> Result<Document, Error> {
        let values = |config: &Self| {
            // A code is not printed, and inputs may have names that are no text.
            let config = Self { inputs: Vec::new(), pair: None, ..config.clone() };
            serde_json::to_value(config).map_err(|error| Failure::Usage.with(error))
        };
        let (own, default) = (values(self)?, values(&Self::default())?);
        let mut document = Document::default();
        for Parameter { name, .. } in parameters::<Self>() {
            let own = value_of(&own, name);
            if !NOT_IN_ENTRIES.contains(&name.as_str()) && own != value_of(&default, name) {
                document.set_value(name, name, own)?;
            }
        }
        Ok(document)
    }

    /// Which keys of an entry are used beside what is given: those that are not given, and that nothing given excludes.
    fn uses(&self, given: &Document) -> Result<impl Fn(&str) -> bool + use<>, Error> {
        let values = serde_json::to_value(given.config::<Self>()?);
        let values = values.map_err(|error| Failure::Usage.with(error))?;
        let is_given = |known: &&Parameter| given.find(&known.name).is_some();
        let given: Vec<&Parameter> = parameters::<Self>().iter().filter(is_given).collect();
        // A switch that is given as off excludes nothing.
        let on = |known: &&Parameter| *value_of(&values, &known.name) != Value::Bool(false);
        let excluding: Vec<&Parameter> = given.iter().copied().filter(on).collect();
        let has_login = matches!(self.peer.0, Peer::Started(_));
        Ok(move |key: &str| {
            let is_excluded = |known: &Parameter| {
                excluding.iter().any(|given| given.excludes(known) || known.excludes(given))
            };
            let known = parameters::<Self>().iter().find(|known| known.name == key);
            !given.iter().any(|given| given.name == key)
                && !known.is_some_and(is_excluded)
                && !(has_login && (ABOUT_KEYS.contains(&key) || key.starts_with(ACCESS)))
        })
    }
}

/// The value of a parameter.
fn value_of<'v>(values: &'v Value, parameter: &str) -> &'v Value {
    let pointer = format!("/{}", parameter.replace('.', "/"));
    values.pointer(&pointer).unwrap_or(&Value::Null)
}

/// The table of a name.
struct Entry<'n> {
    name: &'n str,
    file: PathBuf,
    /// Its parameters.
    values: Document,
    address: Option<Peer>,
}

impl<'n> Entry<'n> {
    /// The entry of this name; all of its values are checked, whatever is used of them.
    fn find(hosts: &Document, name: &'n str) -> Result<Option<Self>, Error> {
        let all: Map<String, Value> = hosts.read_as()?;
        if let Some((key, _)) = all.iter().find(|(_, value)| !value.is_object()) {
            return Err(hosts.refuse(key, TransferError::NoEntry { key: key.clone() }).into());
        }
        if !all.contains_key(name) {
            let nested = format!("/{}", name.replace('.', "/"));
            let is_nested = Value::Object(all).pointer(&nested).is_some_and(Value::is_object);
            return match is_nested {
                true => Err(hosts.refuse(name, TransferError::NameWithDots).into()),
                false => Ok(None),
            };
        }
        let mut whole = hosts.named_table(name, &[]);
        let address = whole.take_text(ADDRESS)?;
        for key in NOT_IN_ENTRIES {
            if whole.find(key).is_some() {
                let error = TransferError::NotInEntry { key: key.to_owned() };
                return Err(whole.refuse(key, error).into());
            }
        }
        whole.config::<Config>()?;
        let address = address.map(|text| match text.parse() {
            Ok(peer @ Peer::Listening { .. }) => Ok(peer),
            _ => Err(whole.refuse(ADDRESS, TransferError::AddressOfEntry { text })),
        });
        let file = hosts.path().to_owned();
        Ok(Some(Self { name, file, address: address.transpose()?, values: whole }))
    }

    /// The receiver, with the address of the entry. A port beside its name outweighs that of the entry.
    fn peer(&self, named: &Peer) -> Peer {
        let Some(Peer::Listening { host, port }) = &self.address else { return named.clone() };
        match named {
            Peer::Listening { port: given, .. } => {
                Peer::Listening { host: host.clone(), port: given.or(*port) }
            }
            Peer::Started(place) => {
                Peer::Started(RemoteFolder { address: Some(host.clone()), ..place.clone() })
            }
        }
    }

    /// Its address and the parameters that are used.
    fn line(&self, peer: &Peer, is_used: impl Fn(&str) -> bool) -> String {
        let names = parameters::<Config>().iter().map(|known| known.name.as_str());
        let used = names.filter(|name| self.values.find(name).is_some() && is_used(name));
        let used: Vec<&str> = used.collect();
        let with = match &*used {
            [] => String::new(),
            used => format!(" with {}", used.join(", ")),
        };
        let address = match (peer, &self.address) {
            (Peer::Started(RemoteFolder { address: Some(address), .. }), _) => {
                format!(" at {address}")
            }
            (_, Some(_)) => format!(" at {peer}"),
            (_, None) => String::new(),
        };
        let (name, file) = (self.name, self.file.display());
        format!("{name}{address}{with}, by its entry in {file}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard_config::{Bytes, Rate};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use tempfile::TempDir;

    const HOSTS: &str = "[lab]\naddress = \"192.0.2.7:4790\"\nlanes = [\"eth1,rate=10G\", \"eth2\"]\n\
        chunk = \"4M\"\naccess.psk = \"lab.key\"\ndelete = true\n\
        [\"host.example\"]\nrate = \"1G\"\nssh = \"ssh -p 2222\"\nstrict = true\n";

    struct Hosts(TempDir);

    impl Hosts {
        fn new(text: &str) -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join(FILE), text).unwrap();
            fs::set_permissions(folder.path().join(FILE), fs::Permissions::from_mode(0o644))
                .unwrap();
            Self(folder)
        }

        fn path(&self) -> PathBuf {
            self.0.path().join(FILE)
        }

        /// A document with options that were given.
        fn document(&self, options: &[(&str, &str)]) -> Document {
            let mut document = Document::default();
            let path = self.path();
            document.set_by("hosts", "hosts", path.to_str().unwrap()).unwrap();
            for (option, value) in options {
                document.set_by(option, option, value).unwrap();
            }
            document
        }

        fn resolve(&self, peer: &str, options: &[(&str, &str)]) -> Result<Resolved, Error> {
            let document = self.document(options);
            let peer = Parsed(peer.parse().unwrap());
            let config = Config { peer, ..document.config()? };
            config.with_host(Some(&document))
        }

        fn error(&self, peer: &str, options: &[(&str, &str)]) -> String {
            let error = self.resolve(peer, options).map(drop).unwrap_err();
            assert_eq!(error.code(), 2, "{error}");
            error.to_string().replace(&*self.path().to_string_lossy(), FILE)
        }
    }

    #[test]
    fn an_entry_gives_the_address_and_what_is_not_given() {
        let hosts = Hosts::new(HOSTS);
        let Resolved { config, document, line } = hosts.resolve("lab", &[]).unwrap();
        assert_eq!(config.peer.0.to_string(), "192.0.2.7:4790");
        assert_eq!((config.chunk, config.lanes.len()), (Bytes::new(4 << 20), 2));
        assert!(config.delete && config.access.psk == Some("lab.key".into()));
        assert_eq!(document.path_of("access.psk", "lab.key"), hosts.0.path().join("lab.key"));
        let said = format!(
            "lab at 192.0.2.7:4790 with lanes, chunk, delete, access.psk, by its entry in {}",
            hosts.path().display()
        );
        assert_eq!(line, Some(said));

        let options =
            [("chunk", "16M"), ("access.psk", "other"), ("rate", "2G"), ("delete", "false")];
        let Resolved { config, document, line } = hosts.resolve("lab:80", &options).unwrap();
        assert_eq!(config.peer.0.to_string(), "192.0.2.7:80");
        assert_eq!((config.chunk, config.rate.0), (Bytes::new(16 << 20), Some(Rate::giga(2))));
        assert_eq!(document.path_of("access.psk", "other"), PathBuf::from("other"));
        assert!(!config.delete && config.lanes.len() == 2);
        assert!(line.is_some_and(|line| line.contains("192.0.2.7:80 with lanes, by")));

        let Resolved { config, line, .. } = hosts.resolve("host.example", &[]).unwrap();
        assert_eq!(config.peer.0.to_string(), "host.example:4780");
        assert!(config.rate.0 == Some(Rate::giga(1)) && config.strict);
        assert!(
            line.is_some_and(|line| line.starts_with("host.example with ssh, rate, strict, by"))
        );

        let Resolved { config, line, .. } = hosts.resolve("192.0.2.7", &[]).unwrap();
        assert_eq!((config.peer.0.to_string().as_str(), line), ("192.0.2.7:4780", None));
        assert_eq!(config.chunk, Config::default().chunk);
    }

    #[test]
    fn an_option_outweighs_those_of_the_entry_that_it_excludes() {
        let hosts = Hosts::new(HOSTS);
        let resolve = |peer, options: &[_]| hosts.resolve(peer, options).unwrap().config;
        let config = resolve("lab", &[("access.identity", "own")]);
        assert_eq!((config.access.psk, config.access.identity), (None, Some("own".into())));
        assert_eq!(resolve("lab", &[("accept_new", "true")]).access.psk, None);
        // It asks for nothing.
        assert_eq!(resolve("lab", &[("accept_new", "false")]).access.psk, Some("lab.key".into()));
        assert!(!resolve("host.example", &[("accept_new", "true")]).strict);
        assert!(resolve("host.example", &[("accept_new", "false")]).strict);
    }

    /// The login has settings of its own, and the receiver gets a key for once.
    #[test]
    fn an_entry_of_a_host_with_a_login() {
        let hosts = Hosts::new(HOSTS);
        let Resolved { config, line, .. } = hosts.resolve("me@lab:in", &[]).unwrap();
        let Peer::Started(place) = &config.peer.0 else { panic!("{:?}", config.peer) };
        assert_eq!((&*place.login, &*place.host, &*place.folder), ("me@lab", "lab", "in"));
        assert_eq!(place.address.as_deref(), Some("192.0.2.7"));
        assert!(config.access == crate::transfer::Access::default() && config.delete);
        assert!(line.is_some_and(|line| {
            line.starts_with("lab at 192.0.2.7 with lanes, chunk, delete, by")
        }));
        let config = hosts.resolve("host.example:in", &[]).unwrap().config;
        assert!(config.ssh == "ssh -p 2222" && !config.strict);
        let Peer::Started(place) = &config.peer.0 else { panic!("{:?}", config.peer) };
        assert_eq!(place.address, None);
    }

    #[test]
    fn a_scenario_outweighs_an_entry() {
        let hosts = Hosts::new(HOSTS);
        let path = hosts.path();
        let text =
            format!("peer = \"lab\"\nchunk = \"1M\"\nhosts = {path:?}\naccess.psk = \"s.key\"\n");
        let document = Document::of_text("there/send.toml", text).unwrap();
        let config: Config = document.config().unwrap();
        let Resolved { config, document, .. } = config.with_host(Some(&document)).unwrap();
        assert_eq!(config.peer.0.to_string(), "192.0.2.7:4790");
        assert_eq!((config.chunk, config.lanes.len()), (Bytes::new(1 << 20), 2));
        assert_eq!(document.path_of("access.psk", "s.key"), PathBuf::from("there/s.key"));

        // A program without a document: values that differ from their defaults are given.
        let config = Config {
            inputs: vec!["a".into()],
            peer: Parsed("lab".parse().unwrap()),
            hosts: Some(path),
            chunk: Bytes::new(1 << 20),
            pair: Some(Parsed("1234-5678".parse().unwrap())),
            ..Config::default()
        };
        let resolved = config.with_host(None).unwrap().config;
        assert_eq!((resolved.chunk, resolved.lanes.len()), (Bytes::new(1 << 20), 2));
        assert_eq!((&resolved.inputs, &resolved.pair), (&config.inputs, &config.pair));
    }

    #[test]
    fn errors_name_the_line_of_the_entry() {
        let error = |text: &str| Hosts::new(text).error("lab", &[("rate", "1G"), ("chunk", "1M")]);
        for (text, expected) in [
            ("[lab]\nchunk = \"3M\"\n", "hosts.toml:2: `chunk = \"3M\"`: 3M is not a power of two"),
            ("[lab]\nrate = 1\n", "hosts.toml:2: `rate = 1`: 1 is out of range: choose 1K to 10T"),
            (
                "[lab]\nlane = \"x\"\n",
                "hosts.toml:2: `lane = \"x\"`: unknown key `lane`: known are ",
            ),
            (
                "[lab]\n[lab.acces]\n",
                "hosts.toml:2: `[lab.acces]`: unknown key `acces`: known are ",
            ),
            (
                "[lab]\npeer = \"x\"\n",
                "hosts.toml:2: `peer = \"x\"`: peer is given with each command: leave it out",
            ),
            (
                "[lab]\naddress = \"a:b\"\n",
                "hosts.toml:2: `address = \"a:b\"`: \"a:b\" is not an address: write host, host:4780",
            ),
            ("[lab]\naddress = 7\n", "hosts.toml:2: `address = 7`: write a text in quotes"),
            (
                "lab = \"192.0.2.7\"\n",
                "hosts.toml:1: `lab = \"192.0.2.7\"`: lab is not a table: write [lab] with",
            ),
            ("# x\n[lab\n", "hosts.toml:2: `[lab`: "),
            (
                "[lab]\nstrict = true\naccept_new = true\n",
                "hosts.toml:2: `strict = true`: `strict` excludes `accept_new`, which is given on line 3",
            ),
        ] {
            let found = error(text);
            assert!(found.starts_with(expected), "{found}");
            assert_eq!(found.lines().count(), 1, "{found}");
        }
        let dots = Hosts::new("[host.example]\nrate = \"1G\"\n").error("host.example", &[]);
        let expected = "hosts.toml:1: `[host.example]`: a name with dots is to be in quotes";
        assert!(dots.starts_with(expected), "{dots}");
    }

    #[test]
    fn a_file_that_is_missing_or_that_others_can_change() {
        let hosts = Hosts::new(HOSTS);
        fs::set_permissions(hosts.path(), fs::Permissions::from_mode(0o664)).unwrap();
        let error = hosts.resolve("lab", &[]).unwrap_err();
        assert_eq!(error.code(), 1);
        assert!(error.to_string().contains("other users can change it (mode 664)"), "{error}");
        fs::remove_file(hosts.path()).unwrap();
        let error = hosts.resolve("lab", &[]).unwrap_err();
        assert_eq!(error.code(), 1);
        let expected = format!("--hosts {}: no such file: ", hosts.path().display());
        assert!(error.to_string().starts_with(&expected), "{error}");
    }
}
