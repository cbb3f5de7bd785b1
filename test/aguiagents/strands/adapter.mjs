// The adapter of AWS Strands, with the protocol's packages that it needs.

export { StrandsAgent } from '@ag-ui/aws-strands';
export { createStrandsApp } from '@ag-ui/aws-strands/server';
