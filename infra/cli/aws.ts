// The AWS clients that the deployment test uses, from the one place that pins them.
export * as cloudformation from '@aws-sdk/client-cloudformation';
export * as cloudwatch from '@aws-sdk/client-cloudwatch';
export * as dynamodb from '@aws-sdk/client-dynamodb';
export * as iam from '@aws-sdk/client-iam';
export * as lambda from '@aws-sdk/client-lambda';
export * as scheduler from '@aws-sdk/client-scheduler';
export * as secretsmanager from '@aws-sdk/client-secrets-manager';
export * as sns from '@aws-sdk/client-sns';
export * as sqs from '@aws-sdk/client-sqs';
export * as ssm from '@aws-sdk/client-ssm';
export * as sts from '@aws-sdk/client-sts';
