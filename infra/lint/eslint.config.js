// What APPSYNC_JS may not contain, as AWS itself knows it; the rules about methods and functions need types.
import appsync from '@aws-appsync/eslint-plugin';

export default [
  { files: ['appsync/**/*.js'], languageOptions: { parserOptions: { project: './tsconfig.json', tsconfigRootDir: import.meta.dirname } } },
  { files: ['appsync/**/*.js'], ...appsync.configs.recommended },
];
