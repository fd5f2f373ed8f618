//! What the content is put into: archives, packages and directories, nested and renamed, and standard input.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::Path;

use super::content::{Code, Held, Maker, Row, Serving};
use crate::properties::make::{BZIP2, DEFLATED, LZMA, STORED, XZ, ZSTD, Zipped, archive, thin_archive, zip};
use crate::properties::packages::{self, File};
use crate::reference::harness::Random;

/// A package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A zip file with this method of compression, as a wheel. `wide`: with sizes of 64 bits.
    Zip {
        method: u16,
        wide: bool,
    },
    Tar,
    TarGz,
    Cpio,
    Rpm,
    Deb,
    /// A compressed file, with a single file in it.
    Gz,
}

/// The packages that hold any number of files.
const KINDS: [Kind; 12] = [
    Kind::Zip { method: STORED, wide: false },
    Kind::Zip { method: DEFLATED, wide: false },
    Kind::Zip { method: DEFLATED, wide: true },
    Kind::Zip { method: ZSTD, wide: false },
    Kind::Zip { method: BZIP2, wide: false },
    Kind::Zip { method: LZMA, wide: false },
    Kind::Zip { method: XZ, wide: true },
    Kind::Tar,
    Kind::TarGz,
    Kind::Cpio,
    Kind::Rpm,
    Kind::Deb,
];

impl Kind {
    fn extension(self) -> &'static str {
        match self {
            Self::Zip { .. } => ".whl",
            Self::Tar => ".tar",
            Self::TarGz => ".tar.gz",
            Self::Cpio => ".cpio",
            Self::Rpm => ".rpm",
            Self::Deb => ".deb",
            Self::Gz => ".gz",
        }
    }

    fn bytes(self, files: &[(String, Vec<u8>)]) -> Vec<u8> {
        let members: Vec<File<'_>> = files.iter().map(|(name, data)| File::new(name, data)).collect();
        match self {
            Self::Zip { method, wide } => {
                let member = |(name, data): &(String, Vec<u8>)| Zipped { wide, ..Zipped::new(name, method, data) };
                zip(&files.iter().map(member).collect::<Vec<_>>())
            }
            Self::Tar => packages::tar(&members),
            Self::TarGz => packages::gzip(&packages::tar(&members)),
            Self::Cpio => packages::cpio(&members),
            Self::Rpm => packages::rpm(&packages::gzip(&packages::cpio(&members))),
            Self::Deb => archive(&[
                ("debian-binary", b"2.0\n"),
                ("control.tar.gz", &packages::gzip(&packages::tar(&[File::new("./control", b"Package: x\n")]))),
                ("data.tar.gz", &packages::gzip(&packages::tar(&members))),
            ]),
            Self::Gz => packages::gzip(&files[0].1),
        }
    }
}

/// A file or directory.
#[derive(Clone, PartialEq, Eq)]
pub enum Node {
    Library(String, Held),
    Text(String),
    Directory(String, Vec<Node>),
    Package(String, Kind, Vec<Node>),
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library(name, held) => write!(f, "{name} = {held:?}"),
            Self::Text(name) => write!(f, "{name} = text"),
            Self::Directory(name, nodes) => {
                write!(f, "{name}/ ")?;
                f.debug_list().entries(nodes).finish()
            }
            Self::Package(name, kind, nodes) => {
                write!(f, "{name} = {kind:?} ")?;
                f.debug_list().entries(nodes).finish()
            }
        }
    }
}

impl Node {
    fn name(&self) -> &str {
        match self {
            Self::Library(name, _) | Self::Text(name) | Self::Directory(name, _) | Self::Package(name, ..) => name,
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Library(_, held) => held.bytes(),
            Self::Text(_) => b"some text\n".to_vec(),
            Self::Directory(..) => unreachable!("a directory has no bytes"),
            Self::Package(_, kind, nodes) => kind.bytes(&files(nodes, "")),
        }
    }

    /// Writes it into a directory.
    fn write(&self, into: &Path) {
        let path = into.join(self.name());
        match self {
            Self::Directory(_, nodes) => {
                fs::create_dir(&path).unwrap();
                nodes.iter().for_each(|node| node.write(&path));
            }
            _ => fs::write(path, self.bytes()).unwrap(),
        }
    }

    /// All libraries.
    fn held_mut(&mut self) -> Vec<&mut Held> {
        match self {
            Self::Library(_, held) => vec![held],
            Self::Text(_) => Vec::new(),
            Self::Directory(_, nodes) | Self::Package(_, _, nodes) => {
                nodes.iter_mut().flat_map(Self::held_mut).collect()
            }
        }
    }

    /// Whether `recompress` writes all of it.
    fn is_writable(&self, is_root: bool) -> bool {
        match self {
            Self::Library(_, held) => held.is_writable(),
            Self::Text(_) => true,
            Self::Directory(_, nodes) => !is_root && nodes.iter().all(|node| node.is_writable(false)),
            Self::Package(_, kind, nodes) => {
                is_root && matches!(kind, Kind::Zip { .. }) && nodes.iter().all(|node| node.is_writable(false))
            }
        }
    }
}

/// The files with their paths from the top of a package.
fn files(nodes: &[Node], at: &str) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for node in nodes {
        match node {
            Node::Directory(name, nodes) => all.extend(files(nodes, &format!("{at}{name}/"))),
            node => all.push((format!("{at}{}", node.name()), node.bytes())),
        }
    }
    all
}

/// How the tool gets the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    Named,
    StandardInput,
    /// A static library whose members are files beside it.
    Thin,
}

/// Content in a file or directory, and how the tool gets it.
#[derive(Clone, Debug)]
pub struct Tree {
    pub label: &'static str,
    pub given: Given,
    pub root: Node,
}

impl Tree {
    fn new(label: &'static str, root: Node) -> Self {
        Self { label, given: Given::Named, root }
    }

    /// The same content in all kinds of files.
    pub fn all(mut maker: Maker) -> Vec<Self> {
        let mut libraries: Vec<Held> = (0..1 + maker.random.below(3)).map(|_| Held::new(&mut maker)).collect();
        let codes: Vec<Held> = (0..maker.random.below(4)).map(|_| Held::loaded_file(&mut maker)).collect();
        let random = &mut maker.random;
        // Some files have a copy.
        if random.below(4) == 0 {
            libraries.push(libraries[0].clone());
        }
        let mut trees = Vec::new();
        let one = random.pick(&libraries);
        let usual = format!("one{}", one.extension());
        let labels = match one {
            Held::Sections(..) => {
                ["object or linked file", "renamed object or linked file", "object or linked file on standard input"]
            }
            Held::Archive(_) => ["static library", "renamed static library", "static library on standard input"],
            Held::Row(_) | Held::Code(_) => {
                ["file of bundles", "renamed file of bundles", "file of bundles on standard input"]
            }
        };
        let alone = Node::Library(usual.clone(), one.clone());
        trees.push(Self::new(labels[0], alone.clone()));
        let other = format!("one{}", random.pick(&[".rlib", ".bin", "", ".a.1", ".lib", ".a", ".so"]));
        trees.push(Self::new(labels[1], Node::Library(other, one.clone())));
        let input = Self::new(labels[2], Node::Library("-".to_owned(), one.clone()));
        trees.push(Self { given: Given::StandardInput, ..input });
        if matches!(one, Held::Archive(_)) {
            trees.push(Self { given: Given::Thin, ..Self::new("thin archive", alone.clone()) });
        }
        trees.push(Self::new("compressed file", Node::Package(format!("{usual}.gz"), Kind::Gz, vec![alone])));

        // A part of the libraries has unusual names.
        let mut nodes: Vec<Node> = (0..)
            .zip(&libraries)
            .map(|(number, held)| {
                let end = if random.below(3) > 0 { held.extension() } else { *random.pick(&[".rlib", ".bin", ""]) };
                Node::Library(format!("lib{number}{end}"), held.clone())
            })
            .collect();
        nodes.push(Node::Text("readme.txt".to_owned()));
        if !codes.is_empty() {
            let codes = (0..).zip(&codes);
            let codes =
                codes.map(|(number, held)| Node::Library(format!("c{number}{}", held.extension()), held.clone()));
            nodes.push(Node::Directory("codes".to_owned(), codes.collect()));
        }
        let package = |name: &str, kind: Kind, nodes: Vec<Node>| {
            Node::Package(format!("{name}{}", kind.extension()), kind, nodes)
        };
        trees.push(Self::new("directory", Node::Directory("tree".to_owned(), nodes.clone())));
        let kind = *random.pick(&KINDS);
        trees.push(Self::new("package", package("all", kind, nodes.clone())));
        trees.push(Self::new("wheel", package("all", KINDS[1], nodes.clone())));
        let input = Self::new("package on standard input", Node::Package("-".to_owned(), kind, nodes.clone()));
        trees.push(Self { given: Given::StandardInput, ..input });
        let (inner, outer) = (*random.pick(&KINDS), *random.pick(&KINDS));
        let rest = nodes.split_off(nodes.len() / 2);
        nodes.push(package("inner", inner, rest.clone()));
        trees.push(Self::new("package in a package", package("outer", outer, nodes.clone())));
        // A compressed file does not count as a package there.
        if inner != Kind::TarGz {
            trees.push(Self::new("package in a directory", Node::Directory("tree".to_owned(), nodes)));
        }
        trees
    }

    /// Returns the same with one code object less, which was not the only one of its unit. Returns none if all units
    /// have only one.
    pub fn with_loss(&self, random: &mut Random) -> Option<Self> {
        let mut tree = self.clone();
        let mut units: Vec<_> = tree.root.held_mut().into_iter().flat_map(|held| held.units_mut()).collect();
        units.retain(|unit| unit.codes.len() > 1);
        if units.is_empty() {
            return None;
        }
        let at = random.below(units.len());
        let codes = &mut units[at].codes;
        codes.remove(random.below(codes.len()));
        Some(tree)
    }

    /// Writes the files into a directory, and returns the argument that names them.
    pub fn write(&self, into: &Path) -> String {
        fs::create_dir_all(into).unwrap();
        match (&self.given, &self.root) {
            (Given::Thin, Node::Library(name, Held::Archive(members))) => {
                let contents: Vec<(&str, Vec<u8>)> =
                    members.iter().map(|(name, held)| (name.as_str(), held.bytes())).collect();
                let sizes: Vec<(&str, usize)> = contents.iter().map(|(name, data)| (*name, data.len())).collect();
                fs::write(into.join(name), thin_archive(&sizes)).unwrap();
                contents.iter().for_each(|(name, data)| fs::write(into.join(name), data).unwrap());
            }
            (Given::StandardInput, root) => fs::write(into.join("input"), root.bytes()).unwrap(),
            (_, root) => root.write(into),
        }
        self.root.name().to_owned()
    }

    pub fn is_directory(&self) -> bool {
        matches!(self.root, Node::Directory(..))
    }

    /// Whether `recompress` writes all of it.
    pub fn is_writable(&self) -> bool {
        self.given != Given::Thin && self.root.is_writable(true)
    }

    /// What the subcommands should find.
    pub fn expected(&self) -> Expected {
        let mut expected = Expected::default();
        let mut groups = BTreeMap::new();
        let root = Within { directory: String::new(), leaf: ".".to_owned(), judged: None };
        let is_file = !self.is_directory();
        collect(&self.root, &root, is_file, &mut expected, &mut groups);
        for (_, (leaf, files)) in groups {
            expected.add_files(&leaf, &files);
        }
        expected
    }
}

/// Where a file is.
struct Within {
    /// The directory, with the packages around it.
    directory: String,
    /// Its name.
    leaf: String,
    /// The index of the file or package that has to serve each expected GPU.
    judged: Option<usize>,
}

/// The files that programs load for their GPUs, by directory: the name of the directory, and the files.
type Groups = BTreeMap<String, (String, Vec<(String, Held)>)>;

fn collect(node: &Node, within: &Within, is_judged: bool, expected: &mut Expected, groups: &mut Groups) {
    let judged = if is_judged {
        expected.judged.push(Vec::new());
        Some(expected.judged.len() - 1)
    } else {
        within.judged
    };
    match node {
        Node::Text(_) => {}
        Node::Library(name, held) => {
            expected.rows.extend(held.rows(name));
            let serving = held.serving();
            let codes: Vec<Code> = serving.iter().flat_map(|serving| serving.codes.clone()).collect();
            if let Some(judged) = judged {
                expected.judged[judged].extend(codes.iter().copied());
            }
            expected.codes.extend(codes);
            expected.hosts += held.hosts();
            if held.is_loaded_file() {
                let group = groups.entry(within.directory.clone()).or_insert_with(|| (within.leaf.clone(), Vec::new()));
                group.1.push((name.clone(), held.clone()));
            } else {
                expected.libraries.push(Library { leaf: name.clone(), serving });
            }
        }
        Node::Directory(name, nodes) | Node::Package(name, _, nodes) => {
            let is_package = matches!(node, Node::Package(..));
            let within = Within { directory: format!("{}/{name}", within.directory), leaf: name.clone(), judged };
            for node in nodes {
                // In a directory, each package has to serve each GPU.
                let is_judged = !is_package && judged.is_none() && matches!(node, Node::Package(..));
                collect(node, &within, is_judged, expected, groups);
            }
        }
    }
}

/// A library and its units.
#[derive(Clone, Debug)]
pub struct Library {
    /// The last name in its path.
    pub leaf: String,
    pub serving: Vec<Serving>,
}

impl Library {
    /// The targets of its code.
    pub fn targets(&self) -> BTreeSet<&'static str> {
        self.serving.iter().flat_map(|unit| &unit.codes).map(|code| code.target).collect()
    }

    /// The number of its units.
    pub fn units(&self) -> usize {
        self.serving.iter().filter(|serving| serving.is_unit).count()
    }

    /// How many units serve a GPU, and how many should; none if none should.
    pub fn served(&self, gpu: &str) -> Option<(usize, usize)> {
        let units: Vec<&Serving> = self.serving.iter().filter(|unit| unit.is_for(gpu)).collect();
        let serving = units.iter().filter(|unit| unit.serves(gpu)).count();
        (!units.is_empty()).then_some((serving, units.len()))
    }
}

/// What the subcommands should find.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    pub libraries: Vec<Library>,
    /// The code of each file that has to serve each expected GPU, whatever its vendor.
    pub judged: Vec<Vec<Code>>,
    pub rows: Vec<Row>,
    /// All code objects for GPUs.
    pub codes: Vec<Code>,
    /// The number of code objects for the host.
    hosts: usize,
}

impl Expected {
    fn add_files(&mut self, directory: &str, files: &[(String, Held)]) {
        let serving = files.iter().flat_map(|(_, held)| held.serving());
        let choices: Vec<Vec<Code>> = serving.flat_map(|serving| serving.choices).collect();
        let leaf = match files {
            [(name, _)] => name.clone(),
            _ => directory.to_owned(),
        };
        let unit = Serving { choices: choices.clone(), ..Serving::of_codes(choices.concat()) };
        self.libraries.push(Library { leaf, serving: vec![unit] });
    }

    /// The number of all code objects. Containers in containers do not count in addition to what they hold.
    pub fn code_objects(&self) -> usize {
        self.codes.len() + self.hosts
    }

    /// The targets of all code.
    pub fn targets(&self) -> BTreeSet<&'static str> {
        self.codes.iter().map(|code| code.target).collect()
    }

    /// Of each library, by its last name: how many units serve each GPU that any code is for, and how many should. GPUs
    /// are left out for which the library has no units.
    pub fn matrix(&self) -> BTreeMap<String, BTreeMap<String, (usize, usize)>> {
        let targets = self.targets();
        let of = |library: &Library| {
            let served = targets.iter().filter_map(|gpu| Some(((*gpu).to_owned(), library.served(gpu)?)));
            (library.leaf.clone(), served.collect())
        };
        self.libraries.iter().map(of).collect()
    }

    fn units(&self) -> impl Iterator<Item = &Serving> {
        self.libraries.iter().flat_map(|library| &library.serving)
    }

    /// Whether `verify --expect` passes: each unit serves the GPU, and each file has some code for it.
    pub fn passes(&self, gpu: &str) -> bool {
        self.units().all(|unit| !unit.is_for(gpu) || unit.serves(gpu)) && self.has_code_for(gpu)
    }

    /// Whether `verify --expect-any` passes: the units of each library serve the GPU together.
    pub fn passes_any(&self, gpu: &str) -> bool {
        self.libraries.iter().all(|library| {
            let units = library.serving.iter().filter(|serving| serving.is_unit);
            let codes: Vec<Code> = units.flat_map(|unit| unit.codes.clone()).collect();
            library.served(gpu).is_none() || super::content::serve(&codes, gpu)
        }) && self.has_code_for(gpu)
    }

    fn has_code_for(&self, gpu: &str) -> bool {
        let any = |codes: &[Code]| codes.iter().any(|code| code.is_taken_by(gpu));
        any(&self.codes) && self.judged.iter().all(|codes| codes.is_empty() || any(codes))
    }

    /// The number of code objects that runtimes load on a GPU.
    pub fn loaded(&self, gpu: &str) -> usize {
        self.units().map(|unit| unit.loaded(gpu)).sum()
    }

    /// The number of code objects that `recompress --keep-for` keeps.
    pub fn kept(&self, gpu: &str) -> usize {
        self.units().map(|unit| unit.kept(gpu)).sum()
    }

    /// Whether a later version is worse for a GPU: it has no code of this target any longer, and does not serve the GPU
    /// everywhere with other code; or a library loses the GPU.
    pub fn loses(&self, new: &Self, target: &str) -> bool {
        let has = |of: &Self| of.codes.iter().any(|code| code.target == target);
        let mut units = new.units().filter(|unit| unit.is_for(target)).peekable();
        let is_replaced = units.peek().is_some() && units.all(|unit| unit.serves(target));
        has(self) && !has(new) && !is_replaced || self.losses(new).iter().any(|(gpu, _)| *gpu == target)
    }

    /// The GPUs that libraries lose, by the targets of their code: all units of a library served the GPU and some no
    /// longer do, or none does any longer.
    pub fn losses(&self, new: &Self) -> BTreeSet<(&'static str, String)> {
        let mut losses = BTreeSet::new();
        for old in &self.libraries {
            let new = new.libraries.iter().find(|new| new.leaf == old.leaf);
            for gpu in old.targets() {
                let Some((serving, units)) = old.served(gpu) else { continue };
                let (now, of) = new.and_then(|new| new.served(gpu)).unwrap_or((0, 0));
                if serving == units && now < of || serving > 0 && now == 0 {
                    losses.insert((gpu, old.leaf.clone()));
                }
            }
        }
        losses
    }
}
