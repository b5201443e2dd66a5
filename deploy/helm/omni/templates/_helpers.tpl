{{- define "omni.labels" -}}
app.kubernetes.io/name: omni
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "omni.container" -}}
image: {{ printf "%s:%s" .Values.image.repository .Values.image.tag | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "omni.env" -}}
- name: OMNI_CLUSTER_HOST
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
- name: OMNI_CLUSTER_NAME
  value: {{ .Release.Name | quote }}
- name: OMNI_CLUSTER_PORT
  value: {{ .Values.ports.cluster | quote }}
- name: OMNI_CLUSTER_DISCOVERY
  value: {{ .Values.discovery | quote }}
- name: OMNI_MODEL
  value: {{ .Values.model | quote }}
- name: OMNI_LOG_FORMAT
  value: json
{{- if eq .Values.discovery "etcd" }}
- name: OMNI_CLUSTER_ETCD
  value: {{ join "," .Values.etcd | quote }}
{{- if .Values.etcdTlsSecret }}
- name: OMNI_CLUSTER_ETCD_CA
  value: /etc/omni/etcd/ca.crt
{{- if .Values.etcdClientCertificate }}
- name: OMNI_CLUSTER_ETCD_CERT
  value: /etc/omni/etcd/tls.crt
- name: OMNI_CLUSTER_ETCD_KEY
  value: /etc/omni/etcd/tls.key
{{- end }}
{{- end }}
{{- else }}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: POD_UID
  valueFrom: {fieldRef: {fieldPath: metadata.uid}}
{{- end }}
{{- if .Values.tlsSecret }}
- name: OMNI_CLUSTER_CERT
  value: /etc/omni/cluster/tls.crt
- name: OMNI_CLUSTER_KEY
  value: /etc/omni/cluster/tls.key
- name: OMNI_CLUSTER_CA
  value: /etc/omni/cluster/ca.crt
{{- else }}
- name: OMNI_CLUSTER_INSECURE_PLAINTEXT
  value: "true"
{{- end }}
{{- end }}

{{- define "omni.mounts" -}}
{{- if .Values.tlsSecret }}
- {name: cluster-tls, mountPath: /etc/omni/cluster, readOnly: true}
{{- end }}
{{- if .Values.etcdTlsSecret }}
- {name: etcd-tls, mountPath: /etc/omni/etcd, readOnly: true}
{{- end }}
{{- if .Values.volume }}
- {name: models, mountPath: /models, readOnly: true}
{{- end }}
- {name: tmp, mountPath: /tmp}
{{- end }}

{{- define "omni.volumes" -}}
{{- if .Values.tlsSecret }}
- name: cluster-tls
  secret: {secretName: {{ .Values.tlsSecret | quote }}}
{{- end }}
{{- if .Values.etcdTlsSecret }}
- name: etcd-tls
  secret: {secretName: {{ .Values.etcdTlsSecret | quote }}}
{{- end }}
{{- if .Values.volume }}
- name: models
  {{- toYaml .Values.volume | nindent 2 }}
{{- end }}
- name: tmp
  emptyDir: {}
{{- end }}

{{- define "omni.discovered" -}}
{{- if eq .Values.discovery "kubernetes" }}
nvidia.com/dynamo-discovery-backend: kubernetes
nvidia.com/dynamo-discovery-enabled: "true"
{{- end }}
{{- end }}
