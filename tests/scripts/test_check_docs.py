"""The check that each promise of docs/threat-model.md names a test that exists and runs."""
import importlib.machinery
import importlib.util
import pathlib
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def load():
    loader = importlib.machinery.SourceFileLoader("check_docs", str(ROOT / "scripts/check-docs"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_docs", loader))
    loader.exec_module(module)
    return module


CHECK = load()


class Promises(unittest.TestCase):
    def test_a_test_in_rust_that_is_ignored_does_not_count(self):
        text = """
            #[test]
            fn plain() {}
            #[cfg(unix)]
            #[tokio::test(start_paused = true)]
            async fn paused() {}
            #[test]
            #[ignore = "it takes an hour"]
            fn ignored() {}
            #[ignore]
            #[tokio::test]
            async fn ignored_before() {}
            fn no_test() {}
        """
        self.assertEqual(CHECK.tests_in(text), ["plain", "paused"])

    def test_a_test_that_is_skipped_does_not_count(self):
        for said, error in [
            ("test('holds', () => {", None),
            ("test.skip('holds', () => {", "skips"),
            ("it.todo('holds')", "skips"),
            ("    def holds(self):", None),
            ('    @unittest.skip("later")\n    def holds(self):', "skips"),
            ("test('something else', () => {", "has no test"),
        ]:
            found = CHECK.title_error(said, "holds", "")
            self.assertEqual(found is None, error is None, said)
            self.assertIn(error or "", found or "")

    def test_a_title_for_several_cases_needs_the_case(self):
        said = "test(`keeps ${standard}`, () => {})\n['a value in a variable', 'secrets']"
        self.assertIsNone(CHECK.title_error(said, "keeps ${standard}", "secrets"))
        self.assertIn("which one", CHECK.title_error(said, "keeps ${standard}", ""))
        self.assertIn("no case", CHECK.title_error(said, "keeps ${standard}", "tables"))

    def test_a_promise_without_a_test_that_runs_is_an_error(self):
        table = "| promise | test |\n|---|---|\n| {} |\n"
        errors = lambda row: list(CHECK.promise_errors(table.format(row)))
        self.assertEqual(errors("It holds | `a_changed_token_is_refused`"), [])
        self.assertEqual(errors("It holds | `infra/test/standards.test.ts` “keeps the standard of ${standard}”: `secrets`"), [])
        for row in [
            "It holds | nothing",
            "It holds | `no_such_test_anywhere`",
            "It holds | `infra/test/standards.test.ts`",
            "It holds | `infra/test/standards.test.ts` “keeps the standard of ${standard}”",
            "It holds | `infra/test/standards.test.ts` “keeps the standard of ${standard}”: `honesty`",
        ]:
            self.assertEqual(len(errors(row)), 1, row)


if __name__ == "__main__":
    unittest.main()
