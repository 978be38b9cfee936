// AWS's own rules for what APPSYNC_JS may not contain. The rules about methods and functions need types: appsync/types.d.ts.
import appsync from '@aws-appsync/eslint-plugin';

export default [
  { files: ['appsync/**/*.js'], languageOptions: { parserOptions: { project: './tsconfig.json', tsconfigRootDir: import.meta.dirname } } },
  { files: ['appsync/**/*.js'], ...appsync.configs.recommended },
];
