{{- define "agent.name" -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{- define "agent.selector" -}}
app.kubernetes.io/name: mctunnel-agent
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "agent.labels" -}}
{{ include "agent.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
{{- end }}

{{- define "agent.secret" -}}
{{- .Values.existingSecret | default (printf "%s-join-token" (include "agent.name" .)) -}}
{{- end }}
