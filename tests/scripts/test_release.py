"""The scripts of a release: what they refuse, and what they write. Binaries are not built here: that takes half an hour."""
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import tempfile
import tomllib
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
VERSION = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]["version"]


def run(command, cwd=ROOT, **environment):
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, env={**os.environ, **environment})


def without(test, *missing):
    """A PATH with all programs of this machine but some."""
    directory = pathlib.Path(tempfile.mkdtemp())
    test.addCleanup(shutil.rmtree, directory)
    for place in os.environ["PATH"].split(":"):
        for program in pathlib.Path(place).iterdir() if pathlib.Path(place).is_dir() else ():
            link = directory / program.name
            if program.name not in missing and not link.is_symlink():
                link.symlink_to(program)
    return str(directory)


class Changes(unittest.TestCase):
    def test_the_section_of_a_version_is_printed_without_its_heading(self):
        printed = run(["scripts/changes", VERSION])
        self.assertEqual(printed.returncode, 0, printed.stderr)
        self.assertTrue(printed.stdout.startswith("- "), printed.stdout[:80])
        self.assertNotIn("\n## ", printed.stdout)

    def test_a_version_that_is_not_there_is_an_error(self):
        printed = run(["scripts/changes", "99.0.0"])
        self.assertEqual((printed.returncode, printed.stdout), (1, ""))
        self.assertIn("no section for 99.0.0", printed.stderr)


class Sbom(unittest.TestCase):
    def sbom(self, *arguments):
        printed = run(["scripts/sbom", *arguments], SOURCE_DATE_EPOCH="1700000000")
        self.assertEqual(printed.returncode, 0, printed.stderr)
        return json.loads(printed.stdout), printed.stdout

    def test_a_binary_lists_what_is_linked_into_it_with_digests_and_licences(self):
        arguments = ("cargo", "sessync", VERSION, "x86_64-unknown-linux-musl", "sessync")
        bom, text = self.sbom(*arguments)
        self.assertEqual((bom["bomFormat"], bom["specVersion"]), ("CycloneDX", "1.5"))
        self.assertEqual(bom["metadata"]["timestamp"], "2023-11-14T22:13:20Z")
        self.assertEqual(bom["metadata"]["component"]["type"], "application")
        names = {each["name"] for each in bom["components"]}
        self.assertLessEqual({"ichido", "reqwest", "rustls", "ring"}, names)
        # Tests and build scripts alone use these.
        self.assertFalse({"proptest", "tempfile", "cc"} & names)
        # A procedural macro runs in the compiler.
        self.assertFalse({"serde_derive", "syn", "thiserror-impl"} & names)
        # A crate for another system is not linked.
        self.assertFalse({name for name in names if name.startswith("windows-sys")})
        for each in bom["components"]:
            self.assertTrue(each["licenses"], each["name"])
            if each["purl"].startswith("pkg:cargo/") and each.get("description") != "part of ichido":
                self.assertEqual(len(each["hashes"][0]["content"]), 64, each["name"])
        # They are in every static binary, and no crate names them.
        versions = {each["name"]: each["version"] for each in bom["components"]}
        self.assertRegex(versions["rust-std"], r"^1\.\d+\.\d+")
        self.assertRegex(versions["musl"], r"^\d+\.\d+\.\d+$")
        references = {each["bom-ref"] for each in bom["components"]} | {bom["metadata"]["component"]["bom-ref"]}
        for each in bom["dependencies"]:
            self.assertLessEqual({each["ref"], *each["dependsOn"]}, references)
        self.assertEqual(text, self.sbom(*arguments)[1], "the same commit gives the same text")

    def test_a_binary_that_runs_another_one_lists_what_is_in_both(self):
        target = "x86_64-unknown-linux-musl"
        both, _ = self.sbom("cargo", "local,sessync", VERSION, target, "ichido-local")
        alone, _ = self.sbom("cargo", "sessync", VERSION, target, "sessync")
        names = {each["bom-ref"] for each in both["components"]}
        self.assertLessEqual({each["bom-ref"] for each in alone["components"]} | {f"pkg:cargo/sessync@{VERSION}"}, names)
        self.assertEqual(both["metadata"]["component"]["name"], "ichido-local")

    def test_the_notices_name_every_crate_that_is_in_a_binary(self):
        target = "x86_64-unknown-linux-musl"
        bom, _ = self.sbom("cargo", "local,sessync", VERSION, target, "ichido-local")
        printed = run(["scripts/sbom", "notices", "local,sessync", VERSION, target, "ichido-local"])
        self.assertEqual(printed.returncode, 0, printed.stderr)
        for each in bom["components"]:
            if each["purl"].startswith("pkg:cargo/") and each.get("description") != "part of ichido":
                self.assertRegex(printed.stdout, rf"(?m)^{re.escape(each['name'])} {re.escape(each['version'])}(: | \()", each["name"])
        # Also of C code that a crate brings along, and of what the tools link.
        for line in ("ring 0.17.14 (LICENSE-BoringSSL)", "quickjs/LICENSE)", "musl ", "Rust's standard library 1."):
            self.assertIn(line, printed.stdout)
        self.assertNotIn(str(pathlib.Path.home()), printed.stdout)

    def test_the_npm_package_has_no_dependencies(self):
        bom, _ = self.sbom("npm", "clients/mesh", VERSION)
        self.assertEqual((bom["components"], bom["metadata"]["component"]["name"]), ([], "ichido-mesh-client"))

    def test_another_version_is_refused(self):
        printed = run(["scripts/sbom", "cargo", "sessync", "99.0.0"])
        self.assertEqual(printed.returncode, 1)
        self.assertIn("not 99.0.0", printed.stderr)


class Release(unittest.TestCase):
    """In a clone, because the checkout of whoever runs this may have changes."""

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory)
        self.clone = self.directory / "ichido"
        self.take(ROOT, self.clone)
        # The scripts as they are here, committed.
        for name in ("release", "reproduce", "changes", "sbom"):
            shutil.copy(ROOT / "scripts" / name, self.clone / "scripts" / name)
        if run(["git", "status", "--porcelain"], self.clone).stdout:
            author = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
            subprocess.run(["git", "add", "--all"], cwd=self.clone, check=True)
            subprocess.run(["git", *author, "commit", "--quiet", "--message", "test"], cwd=self.clone, check=True)

    def take(self, source, clone):
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", f"file://{source}", clone], check=True, capture_output=True)

    def test_the_same_commit_gives_the_same_files_in_any_directory(self):
        other = self.directory / "in" / "another" / "place"
        self.take(self.clone, other)
        sums = []
        # Another owner's umask gives the files other modes.
        subprocess.run(["chmod", "-R", "go-rwx", other], check=True)
        for place in (self.clone, other):
            ended = run(["scripts/release", VERSION], place, RELEASE_BINARIES="none")
            self.assertEqual(ended.returncode, 0, ended.stderr)
            self.assertFalse((place / f"target/release-{VERSION}").exists(), "a part is not taken for the whole")
            release = place / f"target/release-{VERSION}-partial"
            sums.append((release / "SHA256SUMS").read_text(encoding="utf-8"))
            checked = run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], release)
            self.assertEqual(checked.returncode, 0, checked.stdout)
        self.assertEqual(sums[0], sums[1])
        names = {line.split()[1] for line in sums[0].splitlines()}
        crates = {f"{name}-{VERSION}.crate{end}" for name in ("ichido", "ichido-testkit") for end in ("", ".cdx.json")}
        client = {f"ichido-mesh-client-{VERSION}.tgz{end}" for end in ("", ".cdx.json")}
        self.assertEqual(names, crates | client | {"CHANGES.md", "PUBLISH.md", "TOOLS.txt"})
        tools = (release / "TOOLS.txt").read_text(encoding="utf-8")
        for tool in ("rustc ", "cargo ", "zig ", "npm ", "node ", "tar "):
            self.assertIn(f"\n{tool}", f"\n{tools}")
        commands = (release / "PUBLISH.md").read_text(encoding="utf-8")
        self.assertIn(f"scripts/reproduce\" {VERSION} \"$PWD\"\n", commands)
        commit = run(["git", "rev-parse", "HEAD"], other).stdout.strip()
        self.assertLess(commands.rindex(f"git switch --detach {commit}"), commands.index("cargo publish"))
        # Somebody else has the digests and the tools, and nothing more.
        download = self.directory / "download"
        download.mkdir()
        for name in ("SHA256SUMS", "TOOLS.txt"):
            shutil.copy(release / name, download)
        again = lambda: run(["scripts/reproduce", VERSION, download], other, RELEASE_BINARIES="none")
        ended = again()
        self.assertEqual((ended.returncode, ended.stdout.splitlines()[-1:]), (0, [f"reproduce: all {len(names) - 1} files are the same"]), ended.stderr)
        self.assertNotIn("not the tools", ended.stderr)
        (download / "TOOLS.txt").write_text(tools.replace("npm ", "npm 1."), encoding="utf-8")
        changed = re.sub(r"^[0-9a-f]{64}(?=  CHANGES.md)", "0" * 64, sums[0], flags=re.M)
        (download / "SHA256SUMS").write_text(changed, encoding="utf-8")
        ended = again()
        self.assertEqual(ended.returncode, 1)
        self.assertIn("so files may differ", ended.stderr)
        self.assertIn("< npm 1.", ended.stderr)
        self.assertIn(f"< {'0' * 64}  CHANGES.md", ended.stdout)
        self.assertIn("the second build differs", ended.stderr)
        # A person runs these commands, never the script.
        script = (ROOT / "scripts/release").read_text(encoding="utf-8")
        heredoc = script[script.index("<<P\n"):script.index("\nP\n")]
        for command in ("cargo publish", "npm publish", "gh release", "gpg ", "cosign ", "git push"):
            self.assertIn(command, heredoc)
            self.assertNotIn(command, script.replace(heredoc, ""))

    def release(self, version, **environment):
        ended = run(["scripts/release", version], self.clone, **{"RELEASE_ARCHES": "none-yet", **environment})
        self.assertEqual(ended.returncode, 1)
        self.assertEqual(list(self.clone.glob("target/release-*")), [])
        return ended.stderr

    def test_a_tool_that_is_missing_is_named_before_anything_is_built(self):
        for tool in ("readelf", "npm"):
            said = self.release(VERSION, RELEASE_ARCHES="x86_64", PATH=without(self, tool))
            self.assertIn(f"release: {tool} is missing", said)

    def test_a_checkout_with_changes_is_refused(self):
        self.assertIn("the architecture is x86_64 or arm64", self.release(VERSION), "a clean one gets as far as that")
        (self.clone / "stray").write_text("", encoding="utf-8")
        self.assertIn("not committed", self.release(VERSION))
        (self.clone / "stray").unlink()
        # Also if somebody told git not to show such files.
        subprocess.run(["git", "config", "status.showUntrackedFiles", "no"], cwd=self.clone, check=True)
        (self.clone / "stray").write_text("", encoding="utf-8")
        self.assertIn("stray", self.release(VERSION))
        (self.clone / "stray").unlink()
        with open(self.clone / "README.md", "a", encoding="utf-8") as readme:
            readme.write("\n")
        self.assertIn("README.md", self.release(VERSION))

    def test_a_file_that_git_ignores_and_cargo_could_embed_is_refused(self):
        ignored = self.clone / "crates/local/src/console/web/stray.pending-snap"
        ignored.write_text("", encoding="utf-8")
        self.assertIn(f"git ignores files that could be built in; remove them: {ignored.relative_to(self.clone)}", self.release(VERSION))

    def test_a_binary_that_does_not_exist_is_refused(self):
        said = self.release(VERSION, RELEASE_BINARIES="sesync")
        self.assertIn("the binaries are sessync, ichidoctl, ichido-local and appsync; sesync is none of them", said)

    def test_a_directory_with_other_files_is_not_emptied(self):
        own = self.directory / "precious"
        own.mkdir()
        (own / "thesis").write_text("", encoding="utf-8")
        said = self.release(VERSION, RELEASE_ARCHES="x86_64", RELEASE_BUILD=str(own))
        self.assertIn(f"RELEASE_BUILD={own} has files in it and is no build of a release", said)
        self.assertTrue((own / "thesis").is_file())

    def test_what_is_beside_a_binary_is_there_and_needs_no_checkout(self):
        script = (ROOT / "scripts/release").read_text(encoding="utf-8")
        functions = script[script.index("readme() {"):script.index("beside() {")]
        for binary in ("sessync", "ichidoctl", "ichido-local", "appsync"):
            command = f"{functions}\nreadme {binary}; named {binary}"
            readme, *named = run(["bash", "-c", command]).stdout.split()
            text = (ROOT / readme).read_text(encoding="utf-8")
            self.assertIn(f"./{binary} ", text)
            self.assertNotIn("make ", text)
            for file in named:
                source, place = file.split(":")
                self.assertTrue((ROOT / source).is_file(), source)
                self.assertIn(place.split("/")[0] + "/", text)
            # Nothing of a checkout is beside it.
            self.assertEqual(re.findall(r"\]\((?!https?:|#)[^)]*\)", text), [])

    def test_another_version_is_refused(self):
        self.assertIn(f"Cargo.toml has the version {VERSION}, not 99.0.0", self.release("99.0.0"))
        self.assertIn("is not a version", self.release("next"))


class Advisories(unittest.TestCase):
    def advisories(self, deny, npm):
        """Runs the script with stand-ins for cargo-deny and npm."""
        directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, directory)
        for name, text in {"cargo-deny": deny, "npm": npm}.items():
            file = pathlib.Path(directory) / name
            file.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
            file.chmod(file.stat().st_mode | stat.S_IXUSR)
        # cargo looks in its own directory before it looks in PATH.
        return run(["scripts/advisories"], PATH=f"{directory}:{os.environ['PATH']}", CARGO_HOME=directory)

    NOTHING = """echo '{"vulnerabilities": {}}'"""

    def test_nothing_known_is_a_success(self):
        ended = self.advisories("exit 0", self.NOTHING)
        self.assertEqual(ended.returncode, 0, ended.stderr)

    def test_a_vulnerability_is_a_failure_that_names_it(self):
        known = """echo '{"vulnerabilities": {"x": {"name": "x", "severity": "high", "range": "<2"}}}'; exit 1"""
        ended = self.advisories("exit 0", known)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("high  x <2", ended.stdout)
        ended = self.advisories("case $* in *check*) echo 'error[vulnerability]: a hole in y'; exit 1;; esac", self.NOTHING)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("a hole in y", ended.stdout)

    def test_a_tool_that_fails_or_is_missing_is_no_vulnerability(self):
        ended = self.advisories("case $* in *check*) echo 'failed to parse deny.toml' >&2; exit 1;; esac", self.NOTHING)
        self.assertEqual(ended.returncode, 3)
        self.assertIn("cargo-deny failed, so nothing is known about Cargo.lock: failed to parse deny.toml", ended.stderr)
        self.assertNotIn("a known vulnerability", ended.stderr)
        for tool in ("npm", "jq", "cargo-deny"):
            ended = run(["scripts/advisories"], PATH=without(self, tool))
            self.assertEqual(ended.returncode, 3)
            self.assertIn(f"{tool} is missing", ended.stderr)
            self.assertNotIn("could not be reached", ended.stderr)

    def test_a_database_that_cannot_be_reached_is_a_failure_of_its_own(self):
        ended = self.advisories("case $* in *fetch*) echo no host; exit 1;; esac", self.NOTHING)
        self.assertEqual(ended.returncode, 3)
        self.assertIn("so nothing is known about Rust crates: no host", ended.stderr)
        ended = self.advisories("exit 0", """echo '{"message": "offline"}'; exit 1""")
        self.assertEqual(ended.returncode, 3)
        self.assertIn("offline", ended.stderr)


if __name__ == "__main__":
    unittest.main()
