//! Tests of `report`: the page as text, and in a browser.

use super::*;
use crate::machine::{memory_directory, skip_unless};
use crate::properties::code_objects::{Kernel, amd};
use crate::properties::make::{Elf, Section};
use crate::reference::formats;

const HOSTILE: &str = "</script><script>document.title='run'</script><img src=x onerror=alert(1)>{{data}}";

fn kernel(name: &str, vgprs: u32, vgpr_spills: u32) -> Kernel {
    Kernel { vgprs, vgpr_spills, code_size: vgprs * 4, ..Kernel::named(name) }
}

/// Returns a library with code for two GPUs. Only one of them is in all bundles.
fn library(kernels: &[Kernel]) -> Vec<u8> {
    let code = amd(kernels);
    let [both, one] = [&[(GFX906, &code[..]), (GFX90A, &code)][..], &[(GFX90A, &code)]]
        .map(|entries| formats::binary(&[&[(HOST, &b""[..])], entries].concat(), 4096));
    let mut bundles = both;
    bundles.resize(bundles.len().next_multiple_of(4096), 0);
    Elf::LIBRARY.write(&[Section::new(".hip_fatbin", &[bundles, one].concat()).aligned(4096)])
}

fn few() -> Vec<u8> {
    library(&[kernel("_Z3addPfi", 8, 0), kernel("_Z6spillsv", 256, 12), kernel(HOSTILE, 64, 0)])
}

/// Returns the exit status, the page about files, and the messages.
fn page(files: &[(&str, &[u8])], args: &[&str]) -> (i32, String, String) {
    let outcome = tool(&[&["report", "-o", "page.html"], args].concat(), files);
    let page = outcome.files.get("page.html").cloned().unwrap_or_default();
    assert!(outcome.stdout.is_empty());
    (outcome.status, String::from_utf8(page).unwrap(), outcome.stderr_text())
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
    assert!(page.contains("<th scope=\"row\">gfx906</th><td class=\"gap\">1 of 2</td>"), "{page}");
    assert!(page.contains("<th scope=\"row\">gfx90a</th><td>2 of 2</td>"), "{page}");
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
    for args in [
        &["report", "in", "-o", "kpack"][..],
        &["inspect", "in", "--svg", "kpack"],
        &["diff", "in", "in", "--svg", "kpack"],
    ] {
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
         await type('ADD float'); out.push(names(), document.querySelector('output').value);
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
    assert!(page.contains("<h1>new.so</h1>") && page.contains(">What changed</h2>"), "{page}");
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
         await type('general_00042'); out.push(document.querySelector('output').value);",
    );
    assert_eq!(out, serde_json::json!([true, true, "255", "88138", "3 of 88,137 kernels"]).as_array().unwrap().clone());
}
