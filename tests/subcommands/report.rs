//! Tests of `report`: the page as text, and in a browser.

use super::*;
use crate::machine::{memory_directory, skip_unless};
use crate::properties::code_objects::{Kernel, amd};
use crate::properties::fatbins;
use crate::properties::make::{Elf, STORED, Section, Zipped, zip};
use crate::reference::formats;

const HOSTILE: &str = "</script><script>document.title='run'</script><img src=x onerror=alert(1)>{{data}}";

fn kernel(name: &str, vgprs: u32, vgpr_spills: u32) -> Kernel {
    Kernel { vgprs, vgpr_spills, code_size: vgprs * 4, ..Kernel::named(name) }
}

/// Returns a library with code for two GPUs. Only one of them is in all bundles.
fn library(kernels: &[Kernel]) -> Vec<u8> {
    library_of_bundles(kernels, &[&[GFX906, GFX90A], &[GFX90A]])
}

/// Returns a library with bundles for these GPUs.
fn library_of_bundles(kernels: &[Kernel], bundles: &[&[&str]]) -> Vec<u8> {
    let code = amd(kernels);
    let mut content = Vec::new();
    for ids in bundles {
        let mut entries = vec![(HOST, &b""[..])];
        entries.extend(ids.iter().map(|id| (*id, &code[..])));
        content.resize(content.len().next_multiple_of(4096), 0);
        content.extend(formats::binary(&entries, 4096));
    }
    Elf::LIBRARY.write(&[Section::new(".hip_fatbin", &content).aligned(4096)])
}

fn few() -> Vec<u8> {
    library(&[kernel("_Z3addPfi", 8, 0), kernel("_Z6spillsv", 256, 12), kernel(HOSTILE, 64, 0)])
}

/// Returns a library with one bundle, which has code of a size for each of these GPUs.
fn library_of_sizes(gpus: &[(&str, usize)]) -> Vec<u8> {
    let ids: Vec<String> = gpus.iter().map(|(gpu, _)| format!("hip-amdgcn-amd-amdhsa--{gpu}")).collect();
    let code: Vec<Vec<u8>> = gpus.iter().map(|(_, size)| vec![b'x'; *size]).collect();
    let mut entries = vec![(HOST, &b""[..])];
    entries.extend(ids.iter().zip(&code).map(|(id, code)| (id.as_str(), code.as_slice())));
    Elf::LIBRARY.write(&[Section::new(".hip_fatbin", &formats::binary(&entries, 4096)).aligned(4096)])
}

/// Returns the exit status, the page about files, and the messages.
fn page(files: &[(&str, &[u8])], args: &[&str]) -> (i32, String, String) {
    let outcome = tool(&[&["report", "-o", "page.html"], args].concat(), files);
    let page = outcome.files.get("page.html").cloned().unwrap_or_default();
    assert!(outcome.stdout.is_empty());
    (outcome.status, String::from_utf8(page).unwrap(), outcome.stderr_text())
}

/// Returns the page about files below directories, which must be without faults.
fn page_of_directories(files: &[(&str, &[u8])], args: &[&str]) -> String {
    let dir = memory_directory();
    for (path, data) in files {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, data).unwrap();
    }
    let outcome = tool_in(dir.path(), &[&["report", "-o", "-"], args].concat());
    assert!(outcome.status.success() && outcome.stderr.is_empty(), "{}", String::from_utf8_lossy(&outcome.stderr));
    String::from_utf8(outcome.stdout).unwrap()
}

#[test]
fn the_page_needs_nothing_else_and_names_are_only_text() {
    let data = few();
    let (status, page, said) = page(&[("a<b>&.so", &data)], &["a<b>&.so"]);
    assert_eq!((status, said.as_str()), (0, ""));
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<h1>a&lt;b&gt;&amp;.so</h1>"), "{page}");
    assert!(page.contains("content=\"default-src 'none'; script-src 'sha256-"), "{page}");
    let addresses = page.matches("http").count();
    let known = page.matches("http://www.w3.org/2000/svg").count() + page.matches("http-equiv").count();
    assert_eq!(addresses, known, "{page}");
    assert!(!page.contains("<link") && !page.contains(" src=\"") && !page.contains("<img"), "{page}");
    assert_eq!((page.matches("<script").count(), page.matches("</script>").count()), (2, 2), "{page}");
    assert!(page.contains("\\u003c/script\\u003e") && page.contains("\"spills()\""), "{page}");
    // The gap: one of two bundles.
    assert!(page.contains("<th scope=\"row\"><b>gfx906</b> <small>MI60, "), "{page}");
    assert!(page.contains("</small></th><td class=\"gap\" title=\"1 of 2\">1/2</td>"), "{page}");
    assert!(page.contains("</th><td title=\"2 of 2\">all</td>"), "{page}");
    for size in ["<td>.hip_fatbin</td><td>gfx906</td><td class=\"number\">1</td>", "role=\"img\" aria-label=\"Map of"] {
        assert!(page.contains(size), "{size}: {page}");
    }
}

#[test]
fn problems_are_in_the_page_and_in_the_status() {
    let data = few();
    let (status, page, said) = page(&[("in.so", &data)], &["in.so", "missing.so"]);
    assert!(status == 1 && said.contains("'missing.so': No such file"), "{said}");
    assert!(page.contains("1 problem: ") && page.contains("<li>'missing.so': No such file"), "{page}");
    // A fault that both searches find is reported once.
    let bundle = formats::binary(&[(GFX906, &amd(&[kernel("k", 1, 0)]))], 1);
    let (status, page, said) = super::report::page(&[("in", &bundle[..bundle.len() - 9])], &["in"]);
    assert_eq!((status, said.lines().count(), page.matches("<li>").count()), (1, 1, 1), "{said}");
}

#[test]
fn report_writes_no_page_over_an_input_or_for_a_wrong_command_line() {
    let data = few();
    for (args, text) in [
        (&["report", "in", "-o", "./in"][..], "-o would overwrite this input"),
        (&["report", ".", "-o", "in"], "-o would overwrite this input"),
        (&["report", "--diff", "in", "other", "-o", "other"], "-o would overwrite this input"),
        (&["report", "--diff", "in", "-o", "out"], "--diff compares two files: OLD NEW"),
        (&["report", "--diff", "in", ".", "-o", "out"], "cannot compare a directory with a file"),
        (&["report", "in", "-o", "no/out"], "'no/out'"),
        (&["report", "missing", "-o", "in"], "'missing': No such file"),
        (&["report", "--diff", "in", "-", "-o", "out"], "'-': --diff reads the new file twice"),
        (&["inspect", ".", "--svg", "in"], "--svg would overwrite this input"),
    ] {
        let outcome = tool(args, &[("in", &data), ("other", &data)]);
        assert_eq!(outcome.status, 1, "{args:?}");
        assert!(outcome.stderr_text().contains(text), "{args:?}: {}", outcome.stderr_text());
        assert!(outcome.files["in"] == data && outcome.files["other"] == data && outcome.files.len() == 2, "{args:?}");
    }
    // An earlier page may be replaced.
    let outcome = tool(&["report", ".", "-o", "page"], &[("in", &data), ("page", b"<!DOCTYPE html>")]);
    assert!(outcome.status == 0 && outcome.files["page"].ends_with(b"</html>\n"), "{}", outcome.stderr_text());
    // Files that are named lead to archives.
    for args in [&["report", "in", "-o", "kpack"][..], &["inspect", "in", "--svg", "kpack"]] {
        let outcome = tool(args, &[("in", &data), ("kpack", b"KPAK and more")]);
        assert!(
            outcome.status == 1 && outcome.stderr_text().contains("would overwrite this kpack archive"),
            "{args:?}"
        );
        assert_eq!(outcome.files["kpack"], b"KPAK and more");
    }
    let outcome = tool(&["report", "in", "-o", "-"], &[("in", &data)]);
    assert!(outcome.status == 0 && outcome.stdout.ends_with(b"</html>\n"));
}

/// Chromium; if it is not installed, prints that and returns none.
fn browser(test: &str) -> Option<PathBuf> {
    let found =
        std::env::split_paths(&std::env::var_os("PATH")?).map(|dir| dir.join("chromium")).find(|path| path.exists());
    if found.is_none() {
        skip_unless("OFFLOAD_REQUIRE_CHROMIUM", test, "chromium is not installed");
    }
    found
}

/// The document that a browser makes of a page, without messages on its console. Timers take no time.
fn opened(browser: &Path, page: &str) -> String {
    let dir = memory_directory();
    let file = dir.path().join("page.html");
    std::fs::write(&file, page).unwrap();
    let mut command = Command::new(browser);
    // Containers have little shared memory. Time that a page waits costs none, so there may be much of it.
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr"]);
    command.args(["--virtual-time-budget=100000", "--window-size=1280,900", "--dump-dom"]);
    let profile = format!("--user-data-dir={}", dir.path().join("profile").display());
    let output = must(command.arg(profile).arg(&file));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("CONSOLE"), "{said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a script when the page is ready, without the page's policy, which would forbid it. Returns the values that the
/// script pushes to `out`.
fn scripted(browser: &Path, page: &str, script: &str) -> Vec<Value> {
    let (before, rest) = page.split_once("<meta http-equiv").unwrap();
    let (_, after) = rest.split_once('>').unwrap();
    let waiting = format!(
        "<script>(async () => {{
          const out = [], wait = (ms) => new Promise((done) => setTimeout(done, ms));
          const all = (selector) => [...document.querySelectorAll(selector)];
          const names = () => all('[data-table=kernels] tbody button').map((button) => button.textContent);
          const type = async (text) => {{
            const search = document.querySelector('[data-table=kernels] input');
            search.value = text; search.dispatchEvent(new Event('input')); await wait(300);
          }};
          const sort = (title) => all('[data-table=kernels] th button').find((head) => head.textContent === title).click();
          while (document.documentElement.dataset.state !== 'ready') await wait(20);
          {script}
          document.body.textContent = '';
          document.body.append(Object.assign(document.createElement('pre'), {{ id: 'out', textContent: JSON.stringify(out) }}));
        }})();</script></body>"
    );
    let dom = opened(browser, &[before, &after.replacen("</body>", &waiting, 1)].concat());
    let (_, out) = dom.split_once("<pre id=\"out\">").unwrap_or_else(|| panic!("{dom}"));
    let out = out.split_once('<').unwrap().0.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

#[test]
fn a_browser_sorts_searches_and_explains_kernels() {
    let Some(browser) = browser("report in a browser") else { return };
    let data = few();
    let (_, page, _) = page(&[("in.so", &data)], &["in.so"]);
    let dom = opened(&browser, &page);
    assert!(
        dom.contains("data-state=\"ready\"") && dom.contains(">9 kernels<") && dom.contains("– GPU code</title>"),
        "{dom}"
    );
    let out = scripted(
        &browser,
        &page,
        "out.push(document.title.includes('run'), all('img').length, names().length);
         sort('VSPILL'); out.push(names()[0]); out.push(document.querySelector('th[aria-sort=descending]').textContent);
         sort('VGPR'); sort('VGPR'); out.push(names()[0]);
         sort('Kernel'); out.push(names()[8]);
         await type('ADD float'); out.push(names(), document.querySelector('[data-table=kernels] output').value);
         await type('_z6spills'); out.push(names()[0]);
         const select = document.querySelector('select'); select.value = [...select.options].find((o) => o.text === 'gfx906').value;
         select.dispatchEvent(new Event('change')); out.push(names().length);
         out.push(document.querySelector('[data-table=kernels] table').getAttribute('aria-rowcount'));
         document.querySelector('tbody button').click(); out.push(document.querySelector('dialog').open, document.querySelector('dialog dl').textContent);
         document.querySelector('dialog').close(); document.body.dispatchEvent(new KeyboardEvent('keydown', { key: '/', bubbles: true }));
         out.push(document.activeElement.type);",
    );
    let expected = serde_json::json!([
        false,
        0,
        9,
        "spills()",
        "VSPILL",
        "add(float*, int)",
        "spills()",
        ["add(float*, int)", "add(float*, int)", "add(float*, int)"],
        "3 of 9 kernels",
        "spills()",
        1,
        "2",
        true
    ]);
    assert_eq!(out[..13], expected.as_array().unwrap()[..], "{out:#?}");
    let details = out[13].as_str().unwrap();
    assert!(details.contains("_Z6spillsv") && details.contains("gfx906") && details.contains("256"), "{details}");
    assert_eq!(out[14], "search");
}

/// Files can name any number of targets; a page draws only visible areas.
#[test]
fn the_map_of_very_many_targets_is_small() {
    let ids: Vec<String> = (0..20_000).map(|number| format!("hip-amdgcn-amd-amdhsa--x{number}")).collect();
    let entries: Vec<(&str, &[u8])> =
        ids.iter().map(|id| (id.as_str(), &b"code"[..])).chain([(GFX906, &[1; 800_000][..]), (HOST, b"")]).collect();
    let data = formats::binary(&entries, 1);
    let (status, page, said) = page(&[("in", &data)], &["in"]);
    assert_eq!((status, said.as_str()), (0, ""));
    assert!(page.len() < 500_000 && page.contains("<title>20,000 more targets: 80.0 kB; in</title>"), "{}", page.len());
    assert!(page.contains("20,001 code objects for 20,001 targets in 1 library"));
}

/// Pictures of the same files are the same, and no text of them is cut.
#[test]
fn pictures_show_all_of_their_texts() {
    let Some(browser) = browser("pictures in a browser") else { return };
    let data = few();
    for (number, length) in [(3, 90), (7, 40), (12, 25), (30, 60), (50, 33)] {
        let names: Vec<String> =
            (0..number).map(|index| format!("{}{index:02}.so", "libW".repeat(length).split_at(length).0)).collect();
        let files: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), data.as_slice())).collect();
        let svg = |args: &[&str]| {
            tool(&[&["inspect", ".", "--svg", "out.svg"], args].concat(), &files).files.remove("out.svg").unwrap()
        };
        let drawn = String::from_utf8(svg(&[])).unwrap();
        assert!(svg(&["--matrix"]) == drawn.as_bytes(), "{number}");
        let (_, page, _) = page(&files, &["."]);
        let page = page.replacen("</main>", &format!("<div class=\"file\">{drawn}</div></main>"), 1);
        assert!(page.contains("class=\"file\""), "{page}");
        let out = scripted(
            &browser,
            &page,
            "for (const svg of all('svg:not(.narrow)')) {
               const outer = svg.getBoundingClientRect(), room = svg.parentElement.getBoundingClientRect();
               if (!svg.closest('.file')) out.push(outer.right <= room.right + 1 ? '' : `svg ${outer.right} ${room.right}`);
               for (const text of svg.querySelectorAll('text')) {
                 const inner = text.getBoundingClientRect();
                 if (inner.right > outer.right + 1 || inner.left < outer.left - 1 || inner.top < outer.top - 4) out.push(text.textContent);
               }
             }",
        );
        assert!(out.len() > 1 && out.iter().all(|text| text == ""), "{number}: {out:?}");
    }
}

#[test]
fn a_browser_shows_what_changed() {
    let Some(browser) = browser("report --diff in a browser") else { return };
    let old = few();
    let new = library(&[kernel("_Z3addPfi", 16, 0), kernel("_Z6spillsv", 256, 2), kernel("_Z3newv", 5, 0)]);
    let (status, page, said) = page(&[("old.so", &old), ("new.so", &new)], &["--diff", "old.so", "new.so"]);
    assert_eq!((status, said.as_str()), (0, ""));
    assert!(
        page.contains("<h1><span>old.so →</span> <span>new.so</span></h1>") && page.contains(">What changed</h2>"),
        "{page}"
    );
    let out = scripted(
        &browser,
        &page,
        "for (const row of all('[data-table=changes] tbody tr:not([aria-hidden])'))
           out.push([...row.children].map((cell) => cell.textContent).join('|'));
         out.push(all('[data-table=changes] td.worse').length);",
    );
    let rows: Vec<&str> = out.iter().filter_map(Value::as_str).collect();
    assert_eq!(rows.len(), 12, "{out:#?}");
    assert!(rows.iter().any(|row| row.starts_with("add(float*, int)|changed|gfx906|8 → 16|")), "{out:#?}");
    assert!(rows.iter().any(|row| row.starts_with("new()|added|gfx90a|– → 5|")), "{out:#?}");
    // Every changed kernel was removed.
    let new = library(&[kernel(HOSTILE, 64, 0)]);
    let (_, page, _) = super::report::page(&[("old.so", &old), ("new.so", &new)], &["--diff", "old.so", "new.so"]);
    let out = scripted(&browser, &page, "out.push(all('[data-table=changes] tbody tr')[1].textContent)");
    assert!(
        out[0].as_str().is_some_and(|row| row.contains("add(float*, int)removed") && row.contains("8 → –")),
        "{out:#?}"
    );
}

const OLD_SIZES: [(&str, usize); 5] =
    [("gfx900", 3000), ("gfx906", 9000), ("gfx908", 1000), ("gfx90a", 1000), ("gfx942", 500)];
const NEW_SIZES: [(&str, usize); 6] =
    [("gfx906", 5000), ("gfx908", 1500), ("gfx90a", 4000), ("gfx942", 500), ("gfx1030", 700), ("gfx1100", 800)];

/// Returns the first words of each row of a table.
fn first_cells(table: &str) -> Vec<&str> {
    let rows = table.split("<th scope=\"row\">").skip(1);
    rows.map(|row| row.split_once('<').unwrap().0).collect()
}

#[test]
fn report_of_two_files_names_both_and_lists_lost_gpus_then_growth_and_folds_gained_gpus() {
    let (old, new) = (library_of_sizes(&OLD_SIZES), library_of_sizes(&NEW_SIZES));
    let (status, page, said) = page(&[("old.so", &old), ("new.so", &new)], &["--diff", "old.so", "new.so"]);
    assert_eq!((status, said.as_str()), (0, ""));
    assert!(page.contains("<title>old.so → new.so – GPU code</title>\n"), "{page}");
    assert!(
        page.contains(
            "<h1><span>old.so →</span> <span>new.so</span></h1>\n<p>Device code: 14.5 kB → 12.5 kB, -13.8 %</p>"
        ),
        "{page}"
    );
    assert!(page.contains("each GPU: 1 lost, 2 larger, 1 smaller, 1 unchanged, 2 new</p>"), "{page}");
    let (_, section) = page.split_once(">What changed</h2>").unwrap();
    let (section, _) = section.split_once("</section>").unwrap();
    let (known, gained) = section.split_once("<details><summary>2 GPUs gained, 1.50 kB</summary>").unwrap();
    assert_eq!(first_cells(known), ["gfx900", "gfx90a", "gfx908", "gfx906", "gfx942"]);
    assert_eq!(first_cells(gained), ["gfx1100", "gfx1030"]);
    assert!(known.contains("<p class=\"gap\">GPUs lost: gfx900</p>"), "{known}");
    for word in ["before", "lost", "larger", "smaller", "new"] {
        assert!(known.contains(&format!("<li class=\"{word}\"><b></b>{word}</li>")), "{word}: {known}");
    }
    let row = "<tr class=\"larger\"><th scope=\"row\">gfx908</th><td class=\"number\">1.00 kB</td>\
               <td class=\"number\">1.50 kB</td><td class=\"number\">+50.0 %</td>\
               <td class=\"bars\"><i style=\"width:11.1%\"></i><b style=\"width:16.7%\"></b></td></tr>";
    assert!(known.contains(row), "{known}");
}

#[test]
fn report_of_two_files_lists_gpus_with_code_in_fewer_bundles() {
    let kernels = [kernel("_Z3addPfi", 8, 0)];
    let old = library_of_bundles(&kernels, &[&[GFX906, GFX90A], &[GFX906, GFX90A]]);
    let (_, page, _) = page(&[("old.so", &old), ("new.so", &library(&kernels))], &["--diff", "old.so", "new.so"]);
    let list = "<details open><summary class=\"gap\">1 GPU of a library has code in fewer bundles</summary><ul>\
                <li>1 of 2 bundles of 'new.so' serve gfx906, before 2 of 2 bundles</li></ul></details>";
    assert!(page.contains(list), "{page}");
}

#[test]
fn report_of_two_files_of_one_name_has_their_paths_in_the_title() {
    let (old, new) = (library_of_sizes(&OLD_SIZES), library_of_sizes(&NEW_SIZES));
    let files: [(&str, &[u8]); 2] = [("a/lib.so", &old), ("b/lib.so", &new)];
    let page = page_of_directories(&files, &["--diff", "a/lib.so", "b/lib.so"]);
    assert!(page.contains("<title>a/lib.so → b/lib.so – GPU code</title>"), "{page}");
    assert!(page.contains("<h1><span>a/lib.so →</span> <span>b/lib.so</span></h1>"), "{page}");
}

#[test]
fn a_gpu_that_only_a_newer_version_of_a_library_serves_is_not_a_gap() {
    let (few, many) = (library_of_sizes(&OLD_SIZES[1..2]), library_of_sizes(&OLD_SIZES[1..3]));
    let files: [(&str, &[u8]); 3] = [("lib_rocm64.so", &few), ("lib_rocm72.so", &many), ("lib_other.so", &few)];
    let (_, page, _) = page(&files, &["lib_rocm64.so", "lib_rocm72.so", "lib_other.so"]);
    for cell in [
        "<td class=\"older\" title=\"0 of 1\">-</td>",
        "<td title=\"1 of 1\">all</td>",
        "<td class=\"gap\" title=\"0 of 1\">-</td>",
    ] {
        let (_, row) = page.split_once("<th scope=\"row\"><b>gfx908</b>").unwrap();
        assert_eq!(row.split_once("</tr>").unwrap().0.matches(cell).count(), 1, "{cell}: {row}");
    }
    for label in ["rocm64", "rocm72", "other"] {
        assert!(page.contains(&format!("title=\"lib_{label}.so\"><span>{label}</span></th>")), "{label}: {page}");
    }
    for class in ["", " class=\"gap\"", " class=\"older\""] {
        assert!(page.contains(&format!("<li><b{class}></b>")), "{class}: {page}");
    }
}

#[test]
fn the_matrix_has_a_table_for_each_vendor_with_its_libraries() {
    let fatbin = fatbins::fatbin(&[fatbins::entry(&fatbins::Code::cubin(90, 3))]);
    let cuda = Elf::LIBRARY.write(&[Section::new(".nv_fatbin", &fatbin)]);
    let files: [(&str, &[u8]); 2] = [("lib_cuda.so", &cuda), ("lib_rocm.so", &library_of_sizes(&OLD_SIZES[1..2]))];
    let (_, page, _) = page(&files, &["lib_cuda.so", "lib_rocm.so"]);
    let tables: Vec<&str> = page.split("<table class=\"cells\">").skip(1).collect();
    assert_eq!(tables.len(), 2, "{page}");
    for (table, library, gpu) in [(tables[0], "rocm", "gfx906"), (tables[1], "cuda", "sm_90")] {
        let (table, _) = table.split_once("</table>").unwrap();
        assert!(table.contains(&format!("<span>{library}</span>")), "{table}");
        assert_eq!(table.matches("<th scope=\"row\">").count(), 1, "{table}");
        assert!(table.contains(&format!("<th scope=\"row\"><b>{gpu}</b>")), "{table}");
    }
}

/// Returns a wheel with these libraries.
fn wheel(libraries: &[(&str, &[u8])]) -> Vec<u8> {
    let members: Vec<Zipped> = libraries.iter().map(|(name, data)| Zipped::new(name, STORED, data)).collect();
    zip(&members)
}

#[test]
fn several_wheels_have_their_names_and_one_name_for_a_library_everywhere() {
    let few = few();
    let ptx = fatbins::fatbin(&[fatbins::entry(&fatbins::Code::ptx(90))]);
    let cuda = Elf::LIBRARY.write(&[Section::new(".nv_fatbin", &ptx)]);
    let one = wheel(&[("p/lib_scatter.so", &few), ("p/lib_gather.so", &few)]);
    let other = wheel(&[("q/cuda.so", &cuda), ("q/rocm.so", &library_of_sizes(&OLD_SIZES[1..2]))]);
    let files: [(&str, &[u8]); 2] =
        [("one-1.2-cp311-cp311-linux_x86_64.whl", &one), ("two-3-py3-none-any.whl", &other)];
    let (status, page, said) = page(&files, &[files[0].0, files[1].0]);
    assert_eq!((status, said.as_str()), (0, ""));
    for part in [
        "<title>one-1.2, two-3 – GPU code</title>",
        "<h1><span>one-1.2,</span> <span>two-3</span> </h1>",
        // The map, the matrices of files and libraries, and the kernels.
        ">one</text>",
        ">gather</text>",
        &format!("title=\"{}\"><span>one</span></th>", files[0].0),
        "<th scope=\"colgroup\" colspan=\"2\">one</th>",
        "<span>gather</span></th>",
        r#"{"values":["scatter","gather"],"rows":"#,
        r#"{"values":["one"],"rows":"#,
        // Code that is compiled when the program starts has words and a pattern.
        "<span>compute_90 (JIT)</span>",
        "JIT: compiled when the program starts",
        "fill=\"url(#jit-1120)\"",
        "<h3>AMD: ",
        "<h3>NVIDIA: ",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

/// Returns a script that opens a page in a frame as wide as a phone, as `phone`.
fn on_a_phone(page: &str) -> String {
    let text = serde_json::to_string(page).unwrap().replace("</", "<\\/").replace("<!--", "<\\!--");
    format!(
        "const frame = document.createElement('iframe');
         frame.width = 375; frame.height = 812; frame.srcdoc = {text};
         document.body.append(frame);
         while (frame.contentDocument?.documentElement?.dataset.state !== 'ready') await wait(20);
         const phone = frame.contentDocument;
         await wait(300);"
    )
}

#[test]
fn a_page_on_a_phone_has_the_width_of_the_screen_and_explains_what_is_tapped() {
    let Some(browser) = browser("report on a narrow screen") else { return };
    let (old, new, sizes) = (few(), library(&[kernel("_Z3addPfi", 16, 0)]), library_of_sizes(&NEW_SIZES));
    let files: [(&str, &[u8]); 4] = [
        ("old/a.so", &old),
        ("new/a.so", &new),
        ("new/libvery_long_name_of_a_library_b.so", &sizes),
        ("new/c.so", &old),
    ];
    for args in [&["new"][..], &["--diff", "old", "new"]] {
        let page = page_of_directories(&files, args);
        let script = "
         const { scrollWidth, clientWidth } = phone.documentElement;
         out.push(clientWidth <= 375, scrollWidth - clientWidth);
         const map = [...phone.querySelectorAll('.map svg')].filter((svg) => svg.getClientRects().length > 0);
         out.push(map.length, Math.round(clientWidth - map[0].getBoundingClientRect().width));
         const rect = map[0].querySelector('rect');
         rect.dispatchEvent(new MouseEvent('click', { bubbles: true }));
         out.push(phone.getElementById('map-hint').value === rect.textContent, rect.classList.contains('chosen'));
         phone.querySelector('.map').dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight', bubbles: true, cancelable: true }));
         out.push(phone.querySelectorAll('.map .chosen').length, phone.getElementById('map-hint').value !== rect.textContent);
         phone.querySelector('.cells td').dispatchEvent(new MouseEvent('click', { bubbles: true }));
         out.push(/^gfx.*: . of .; .*\\.so$/.test(phone.getElementById('matrix-hint').value));
         const table = phone.querySelector('[data-table=kernels] .rows');
         table.dispatchEvent(new Event('scroll'));
         out.push(table.classList.contains('more-right'));
         table.scrollLeft = 10000; table.dispatchEvent(new Event('scroll'));
         out.push(table.classList.contains('more-right'));
         out.push(table.querySelector('td button').getBoundingClientRect().left >= table.getBoundingClientRect().left);";
        let out = scripted(&browser, &page, &(on_a_phone(&page) + script));
        let expected = serde_json::json!([true, 0, 1, 40, true, true, 1, true, true, true, false, true]);
        assert_eq!(Value::Array(out), expected, "{args:?}");
    }
}

#[test]
fn a_browser_leaves_out_columns_without_values_and_the_beginning_of_all_names() {
    let Some(browser) = browser("columns and names in a browser") else { return };
    let names = ["_ZN3lib3addIfEEvPT_", "_ZN3lib3addIdEEvPT_", "_ZN3lib3mulEPf", "_ZN3lib3mulEPd"];
    let kernels: Vec<Kernel> = names.iter().map(|name| kernel(name, 8, 0)).collect();
    let data = library(&kernels);
    let files: [(&str, &[u8]); 2] = [("lib_one.so", &data), ("lib_two.so", &data)];
    let (_, page, _) = page(&files, &["."]);
    let out = scripted(
        &browser,
        &page,
        "const table = document.querySelector('[data-table=kernels] table');
         const titles = [...table.querySelectorAll('thead th')].map((head) => head.textContent);
         out.push(titles);
         const cells = [...table.querySelectorAll('tbody tr:not([aria-hidden])')].map((row) => [...row.cells].map((cell) => cell.textContent));
         out.push(titles.filter((_, at) => cells.every((row) => row[at] === '' || row[at] === '0')));
         out.push([...new Set(cells.map((row) => row[0]))].sort(), [...new Set(cells.map((row) => row[2]))]);
         const [base, rest] = [...table.querySelectorAll('tbody button')].find((button) => button.textContent.startsWith('mul(d')).children;
         out.push(base.textContent, [...rest.children].map((part) => part.textContent));
         out.push(table.querySelector('tbody button').title);
         out.push(document.querySelector('[data-table=kernels] .hint').textContent.includes('lib:: at the start of all names'));",
    );
    let expected = serde_json::json!([
        ["Kernel", "GPU", "Library", "VGPR", "CODE"],
        [],
        ["add<double>(double*)", "add<float>(float*)", "mul(double*)", "mul(float*)"],
        ["one", "two"],
        "mul",
        ["(", "double*)", ""],
        "void lib::add<float>(float*)",
        true
    ]);
    assert_eq!(Value::Array(out), expected);
}

#[test]
fn a_browser_draws_what_can_be_seen_of_88137_kernels() {
    let Some(browser) = browser("report of 88,137 kernels in a browser") else { return };
    let kernels: Vec<Kernel> = (0..29_379)
        .map(|number| {
            let name = format!("_Z{}csrmv_general_{number:05}ILj256ELj{}EifEvT1_PKT0_", 19, number % 97);
            kernel(&name, number % 256, number % 13)
        })
        .collect();
    let data = library(&kernels);
    let (status, page, said) = page(&[("in.so", &data)], &["in.so"]);
    assert_eq!((status, said.as_str()), (0, ""));
    assert!(page.len() < 2_000_000, "{}", page.len());
    let out = scripted(
        &browser,
        &page,
        "out.push(names().length < 100);
         const view = document.querySelector('[data-table=kernels] .rows');
         sort('CODE'); out.push(names()[0] !== undefined, all('[data-table=kernels] td.number')[0].textContent);
         view.scrollTop = view.scrollHeight; await wait(500);
         out.push(all('[data-table=kernels] tr[aria-rowindex]').at(-1).getAttribute('aria-rowindex'));
         await type('general_00042'); out.push(document.querySelector('[data-table=kernels] output').value);",
    );
    assert_eq!(out, serde_json::json!([true, true, "255", "88138", "3 of 88,137 kernels"]).as_array().unwrap().clone());
}
